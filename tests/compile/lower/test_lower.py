"""What loops make of numbers and places: kinds of numbers, their edges, index arrays, windows.

All of it is compared with what the same functions give eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.ops.families import rows
from chainrule.ops.windows import convolution, pooling
from tests.compile.ops.test_ops import EAGER, eager_ops
from tests.compile.ops.test_ops import made as made
from tests.ops import check, samples_elementwise
from tests.ops.sample import Sample, cotangent
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


# --- whole numbers, bools, half precision --------------------------------------------------------

WITHOUT: dict[str, list[Sample]] = {}
for _sample in samples_elementwise.without_derivative():
    WITHOUT.setdefault(_sample.name, []).append(_sample)


@pytest.mark.parametrize("name", WITHOUT)
def test_rows_without_derivative_give_the_same(name: str, made: list[Any]):
    samples = WITHOUT[name]
    args = [cr.asarray(x) for s in samples for x in s.args]

    def everything(*xs: Any) -> list[Any]:
        rest = iter(xs)
        return [s.f(*[next(rest) for _ in s.args]) for s in samples]

    for s, got in zip(samples, cr.jit(everything)(*args), strict=True):
        check.same_bits(got, s.f(*[cr.asarray(x) for x in s.args]), str(s))
    assert not eager_ops(made)


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: [cr.sum(x), cr.sum(x, axis=1), cr.sum(x, axis=(0, 2), keepdims=True)],
    "prod": lambda x: [cr.prod(x, axis=-1), cr.prod(x, axis=0)],
    "max": lambda x: [cr.max(x), cr.max(x, axis=1), cr.max(x, axis=-1, keepdims=True)],
    "min": lambda x: [cr.min(x), cr.min(x, axis=0), cr.min(x, axis=-1)],
    "argmax": lambda x: [cr.argmax(x), cr.argmax(x, axis=1), cr.argmax(x, axis=2, keepdims=True)],
    "argmin": lambda x: [cr.argmin(x), cr.argmin(x, axis=0), cr.argmin(x, axis=-1)],
    "any": lambda x: [cr.any(x), cr.any(x, axis=1), cr.any(x > 1, axis=-1), cr.any(x, axis=())],
    "all": lambda x: [cr.all(x), cr.all(x, axis=0), cr.all(x < 2, axis=-1), cr.all(x, axis=())],
    "count_nonzero": lambda x: [cr.count_nonzero(x), cr.count_nonzero(x, axis=1)],
    "cumulative_sum": lambda x: [cr.cumulative_sum(x, axis=a) for a in range(3)],
    "cumulative_prod": lambda x: [cr.cumulative_prod(x, axis=a) for a in range(3)],
    "cummax": lambda x: [part for a in range(3) for part in cr.cummax(x, axis=a)],
    "cummin": lambda x: [part for a in range(3) for part in cr.cummin(x, axis=a)],
}
KINDS = [
    *[cr.bool, cr.int8, cr.uint8, cr.int16, cr.int32, cr.int64, cr.uint64],
    *[cr.bfloat16, cr.float16, cr.float32],
]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_every_kind_of_number(name: str, made: list[Any]):
    rng = np.random.default_rng(5)
    whole = rng.integers(0, 4, (3, 5, 7)) - 1
    xs = [cr.asarray((np.abs(whole) if k.kind in "ub" else whole).astype(k)) for k in KINDS]

    def everything(*args: Any) -> list[Any]:
        return [REDUCTIONS[name](x) for x in args]

    for kind, got, x in zip(KINDS, cr.jit(everything)(*xs), xs, strict=True):
        for y, want in zip(got, REDUCTIONS[name](x), strict=True):
            check.same_bits(y, want, f"{name} of {kind}")
    assert not eager_ops(made)


def wide(x: Any) -> Any:
    """Its numbers, as float64 where NumPy knows little of their dtype."""
    return x.numpy().astype(np.float64) if x.dtype.kind == "V" else x.numpy()


NARROW = [cr.float16, cr.bfloat16]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_half_precision_is_summed_in_single(dtype: Any):
    x = np.random.default_rng(6).normal(size=(40, 300)).astype(dtype)
    index = np.random.default_rng(7).integers(0, 3, 40)

    def f(x: Any) -> list[Any]:
        rows = cr.asarray(np.tile(index[:, None], (1, 300)))
        added = cr.scatter_add(cr.zeros((3, 300), dtype=dtype), 0, rows, x)
        return [x.sum(), x.sum(axis=1), x @ x.mT, cr.cumsum(x, axis=1), cr.norm(x, axis=0), added]

    for got, want in zip(cr.jit(f)(cr.asarray(x)), f(cr.asarray(x)), strict=True):
        assert got.dtype == dtype
        eps = float(cr.finfo(dtype).eps)
        np.testing.assert_allclose(wide(got), wide(want), rtol=2 * eps, atol=2 * eps)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_rows_of_half_precision(dtype: Any, made: list[Any]):
    """Each op is rounded once, as it is in eager code: the two differ by a unit at most."""
    rng = np.random.default_rng(8)
    x, y = (cr.asarray(rng.uniform(0.1, 0.9, 50).astype(dtype)) for _ in range(2))
    names = [n for n in rows if n not in EAGER and not n.startswith("bitwise")]
    unary = [n for n in names if len(rows[n].partials) == 1]
    binary = [n for n in names if len(rows[n].partials) == 2]

    def f(x: Any, y: Any) -> list[Any]:
        numbers = [x * 257, x * 0.1, 2049 + x, x < 0.1, cr.where(x < y, x, 1e-3)]
        return [*[rows[n](x) for n in unary], *[rows[n](x, y) for n in binary], *numbers]

    names = [*unary, *binary, "x * 257", "x * 0.1", "2049 + x", "x < 0.1", "where"]
    for name, got, want in zip(names, cr.jit(f)(x, y), f(x, y), strict=True):
        assert got.dtype == want.dtype, name
        eps = float(cr.finfo(dtype).eps)
        np.testing.assert_allclose(wide(got), wide(want), rtol=eps, err_msg=name)
    assert eager_ops(made) == {"nextafter"}  # of numbers that are further apart


EDGE = [0.0, -0.0, 1.0, 1.00390625, 1.01171875, 3.4e38, -3.4e38, 1e-40, np.inf, -np.inf, np.nan]


def test_rounding_to_bfloat16_is_that_of_eager_code():
    """Ties go to even ones, the largest float32 to infinity, NaN to NaN."""
    rng = np.random.default_rng(9)
    x = rng.integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    for values in (np.array(EDGE, np.float32), x, x.astype(np.float64)):
        f = lambda v: (v.astype(cr.bfloat16), v.astype(cr.bfloat16).astype(cr.float32) * 1)
        got, back = cr.jit(f)(cr.asarray(values))
        want = f(cr.asarray(values))[0]
        nan = np.isnan(values)
        assert (np.isnan(back.numpy()) == nan).all()
        np.testing.assert_array_equal(wide(got), wide(want))


def test_rounding_of_float64_to_float16_is_that_of_eager_code():
    """Once: what lies a little beside the middle of two goes to the nearer one."""
    half = np.sort(np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64))
    half = half[np.isfinite(half)]
    middle = (half[1:] + half[:-1]) / 2
    beside = [np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), middle * (1 + 1e-12)]
    far = [65519.999999, 65520.0, -65520.0, 3.5e38, 1e300, 1e-300, 5e-324, *EDGE]
    x = cr.asarray(np.concatenate([half, middle, *beside, far]))
    for f in (lambda v: v.astype(cr.float16), lambda v: (v * -1).astype(cr.float16)):
        with np.errstate(over="ignore", under="ignore"):
            want = f(x).numpy()
        np.testing.assert_array_equal(cr.jit(f)(x).numpy(), want)
        np.testing.assert_array_equal(cr.jit(f)(x[7]).numpy(), f(x[7]).numpy())


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_model_under_autocast_is_native_code(dtype: Any, made: list[Any]):
    model = nn.Sequential(
        nn.Linear(8, 16, generator=cr.Generator(0)), nn.GELU(),
        nn.LayerNorm(16), nn.Linear(16, 4, generator=cr.Generator(1)),
    )  # fmt: skip
    x = cr.asarray(np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32))
    y = cr.asarray(np.arange(5) % 4)

    def f(x: Any, y: Any) -> list[Any]:
        with cr.autocast(dtype):
            loss = cr.cross_entropy(model(x), y)
        loss.backward()
        grads = [p.grad for p in model.parameters()]
        for p in model.parameters():
            p.grad = None
        return [loss.detach(), *grads]

    eps = float(cr.finfo(dtype).eps)
    for got, want in zip(cr.jit(f)(x, y), f(x, y), strict=True):
        scale = np.abs(want.numpy()).max()
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=4 * eps * scale)
    assert not eager_ops(made)


MIXED = [
    *[cr.bool, cr.uint8, cr.int32, cr.int64],
    *[cr.bfloat16, cr.float16, cr.float32, cr.float64],
]


@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "less", "pow", "floor_divide"])
def test_mixed_kinds_of_numbers(name: str):
    pairs = [(a, b) for a in MIXED for b in MIXED if not (name == "pow" and {a, b} == {cr.bool})]
    x, y = np.array([1, 2, 3, 1]), np.array([2, 1, 1, 3])
    if name == "floor_divide":
        pairs = [p for p in pairs if set(p) != {cr.bool}]
    args = [cr.asarray(v.astype(k)) for pair in pairs for v, k in zip((x, y), pair, strict=True)]

    def f(*xs: Any) -> list[Any]:
        return [rows[name](a, b) for a, b in zip(xs[::2], xs[1::2], strict=True)]

    for pair, got, want in zip(pairs, cr.jit(f)(*args), f(*args), strict=True):
        assert got.dtype == want.dtype, pair
        eps = float(cr.finfo(want.dtype).eps) if want.dtype.kind in "fV" else 0
        np.testing.assert_allclose(wide(got), wide(want), rtol=4 * eps, err_msg=str(pair))


# --- edges of the numbers ------------------------------------------------------------------------

INF, NAN = np.inf, np.nan
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.0, 1e-30, 1e30, -1e30, INF, -INF, NAN]
UNARY = [n for n, r in rows.items() if len(r.partials) == 1 and n not in EAGER]
BINARY = [n for n, r in rows.items() if len(r.partials) == 2 and n not in EAGER]


def _alike(got: Any, want: Any, signs: bool) -> None:
    got, want = got.numpy(), want.numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=2e-5 if want.dtype == np.float32 else 2e-13)
    if signs:
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_at_the_edges(dtype: type):
    x = cr.asarray(np.array(EDGES, dtype))
    a, b = [cr.asarray(v.astype(dtype).reshape(-1)) for v in np.meshgrid(EDGES, EDGES)]

    def f(x: Any, a: Any, b: Any) -> list[Any]:
        return [*[rows[n](x) for n in UNARY], *[rows[n](a, b) for n in BINARY]]

    for n, got, want in zip([*UNARY, *BINARY], cr.jit(f)(x, a, b), f(x, a, b), strict=True):
        try:
            _alike(got, want, signs=True)
        except AssertionError as wrong:
            raise AssertionError(f"{n} of {np.dtype(dtype)}") from wrong


REDUCED = {
    "sum": lambda x: cr.sum(cr.clip(x, -INF, 3.0), axis=1),
    "max": lambda x: cr.max(x, axis=1),
    "min": lambda x: cr.min(x, axis=1),
    "argmax": lambda x: cr.argmax(x, axis=1),
    "argmin": lambda x: cr.argmin(x, axis=1),
    "logsumexp": lambda x: cr.logsumexp(x, axis=1),
    "norm": lambda x: cr.norm(x, axis=1),
    "cummax": lambda x: cr.cummax(x, axis=1)[1],
    "logcumsumexp": lambda x: cr.logcumsumexp(x, axis=1),
    "max_pool1d": lambda x: pooling.max_pool1d(x[None], 2, padding=1, stride=1),
    "softmax": lambda x: cr.softmax(cr.clip(cr.where(cr.isnan(x), 0.5, x), -INF, 2.0), axis=1),
}


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_at_the_edges(name: str):
    rng = np.random.default_rng(8)
    edges = np.array([0.0, -0.0, 1.0, -2.0, 1e200, -1e200, 1e-200, INF, -INF, NAN])
    x = rng.choice(edges, (60, 5), p=[0.12] * 7 + [0.06, 0.06, 0.04])
    x = cr.asarray(np.concatenate([x, np.full((1, 5), -INF), np.full((1, 5), NAN)]))
    _alike(cr.jit(REDUCED[name])(x), REDUCED[name](x), signs=False)


# --- places and windows --------------------------------------------------------------------------

X = np.arange(2 * 3 * 4 * 5, dtype=np.float64).reshape(2, 3, 4, 5) / 7
I, J = np.array([[2, 0, -1], [1, 1, -3]]), np.array([1, -2, 0])
KEYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "first": lambda x, i, j: x[i % 2],
    "middle": lambda x, i, j: x[:, i],
    "two together": lambda x, i, j: x[:, i, j],
    "two apart": lambda x, i, j: x[:, i, :, j],
    "an integer between": lambda x, i, j: x[0, :, i, j],
    "an integer beside": lambda x, i, j: x[:, 1, j],
    "a new axis between": lambda x, i, j: x[:, i, None, j],
    "new axes and steps": lambda x, i, j: x[None, ::-1, i, 1:, ::2],
    "an ellipsis": lambda x, i, j: x[..., j],
    "without axes": lambda x, i, j: x[i[0, 1], ..., j],
    "all": lambda x, i, j: x[j % 2, j, j, j],
}


@pytest.mark.parametrize("key", KEYS)
def test_index_arrays_stand_where_numpy_puts_them(key: str, made: list[Any]):
    def f(x: Any, i: Any, j: Any) -> list[Any]:
        y, pull = cr.vjp(lambda x: KEYS[key](x, i, j), x)
        return [y, *pull(cotangent(y))]

    xs = [cr.asarray(x) for x in (X, I, J)]
    for got, want in zip(cr.jit(f)(*xs), f(*xs), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-13)
    np.testing.assert_array_equal(cr.jit(f)(*xs)[0].numpy(), KEYS[key](X, I, J))
    assert not eager_ops(made)


WINDOWS = [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (3, 1, 2, 2), (2, (1, 2), (1, 2), 4)]


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), WINDOWS)
def test_convolutions_of_every_kind(
    stride: Any, padding: Any, dilation: Any, groups: int, made: list[Any]
):
    rng = np.random.default_rng(9)
    x, w = rng.normal(size=(3, 4, 9, 11)), rng.normal(size=(8, 4 // groups, 3, 2))
    back = rng.normal(size=(4, 2, 3, 2))

    def f(x: Any, w: Any, back: Any) -> list[Any]:
        y, pull = cr.vjp(
            lambda x, w: convolution.conv2d(
                x, w, stride=stride, padding=padding, dilation=dilation, groups=groups
            ),
            x, w,
        )  # fmt: skip
        turned = convolution.conv_transpose2d
        z, turn = cr.vjp(
            lambda x, w: turned(x, w, stride=stride, padding=padding, groups=groups), x, back
        )
        return [y, *pull(cotangent(y)), z, *turn(cotangent(z))]

    xs = [cr.asarray(v) for v in (x, w, back)]
    for got, want in zip(cr.jit(f)(*xs), f(*xs), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10, atol=1e-12)
    assert not eager_ops(made)


@pytest.mark.parametrize(("size", "stride"), [(2, None), (3, 1), ((2, 3), (3, 2))])
def test_pooling_of_every_kind(size: Any, stride: Any, made: list[Any]):
    x = np.random.default_rng(10).integers(0, 9, (2, 3, 8, 9)).astype(np.float32)

    def f(x: Any) -> list[Any]:
        out: list[Any] = []
        for pool in (pooling.max_pool2d, pooling.avg_pool2d):
            y, pull = cr.vjp(lambda x, pool=pool: pool(x, size, stride=stride, padding=1), x)
            out += [y, *pull(cotangent(y).astype(np.float32))]
        return out

    for got, want in zip(cr.jit(f)(cr.asarray(x)), f(cr.asarray(x)), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
    assert not eager_ops(made)


@pytest.mark.parametrize(
    "row",
    [
        [-np.inf, np.nan, 1.0, 2.0], [-np.inf] * 4, [np.inf, 1.0, 2.0, -np.inf],
        [np.nan, np.nan, 0.0, -np.inf], [1.0, 2.0, 3.0, -np.inf], [1e200, 0.0, 1.0, 2.0],
    ],
)  # fmt: skip
def test_a_softmax_of_what_is_not_finite(row: list[float]):
    x = cr.tensor(np.array([row]))
    np.testing.assert_allclose(
        cr.jit(cr.softmax)(x).numpy(), cr.softmax(x).numpy(), rtol=1e-15, equal_nan=True
    )


def test_parts_that_are_read_where_they_are_put_together():
    """A kernel reads an array only when all of its parts are there."""

    def cross(a: Any, b: Any) -> Any:
        return cr.stack(
            [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
        )

    def f(c: Any, x: Any) -> Any:
        x = x * cr.cos(c[0]) + cross(c[:3], x) * cr.sin(c[0])
        flat = x[:2] / x[2]
        r = cr.sum(flat * flat)
        return flat * (1 + c[9] * r + c[10] * r * r)

    rng = np.random.default_rng(7)
    c = cr.tensor(rng.normal(size=(7, 11)))
    x = cr.tensor(rng.normal(size=(7, 3)) + np.array([0, 0, 5]))

    def jac(c: Any, x: Any) -> Any:
        return cr.vmap(cr.jacobian(f, argnums=1))(c, x)

    np.testing.assert_allclose(cr.jit(jac)(c, x).numpy(), jac(c, x).numpy(), rtol=1e-12)


def test_large_products_that_are_put_elsewhere():
    """One for each head of each example: their results lie in the order that a reshape wants."""
    rng = np.random.default_rng(0)
    a = cr.tensor(rng.normal(size=(3, 4, 64, 64)).astype(np.float32))
    v = cr.tensor(rng.normal(size=(3, 64, 4, 64)).astype(np.float32))

    def f(a: Any, v: Any) -> Any:
        y = cr.matmul(a, cr.permute_dims(v, (0, 2, 1, 3)))
        return cr.reshape(cr.permute_dims(y, (0, 2, 1, 3)), (3, 64, 256)) * 2

    np.testing.assert_allclose(cr.jit(f)(a, v).numpy(), f(a, v).numpy(), rtol=1e-4, atol=1e-4)


def test_a_part_that_cannot_be_computed_in_place():
    """The product reads the old value and depends on the new one."""
    start = np.random.default_rng(0).normal(size=(6, 4))
    v = cr.tensor(start)

    @cr.jit
    def f() -> Any:
        a = v[:3] * 2 + 1
        new = cr.concat([a, v[3:] * 3], axis=0)
        out = cr.matmul(v[:3], a.T)
        v.data = new
        return out, cr.sum(new) + cr.sum(v)

    out, total = f()
    a = start[:3] * 2 + 1
    new = np.concatenate([a, start[3:] * 3])
    np.testing.assert_allclose(out.numpy(), start[:3] @ a.T)
    np.testing.assert_array_equal(v.numpy(), new)
    np.testing.assert_allclose(total.numpy(), 2 * new.sum())


def test_a_long_chain_takes_no_deep_calls():
    def f(x: Any) -> Any:
        for _ in range(1500):
            x = x * 0.999 + 0.001
        return x

    x = cr.tensor(np.arange(5.0))
    np.testing.assert_array_equal(cr.jit(f)(x).numpy(), f(x).numpy())


@pytest.mark.parametrize("n", [1, 2, 7, 16, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_all_lanes_add_to_one_place_is_added_by_each(n: int, dtype: Any):
    def gradients(x: Any, w: Any) -> list[Any]:
        index = np.zeros(n, np.int64)
        return [cr.grad(lambda x, v=v: (x[index] * v).sum())(x) for v in (1, w)]

    x, w = cr.ones(1, dtype=dtype), cr.arange(n, dtype=dtype)
    got = cr.jit(gradients)(x, w)
    assert [g.numpy().tolist() for g in got] == [[n], [n * (n - 1) / 2]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint32", "uint64"])
def test_whole_powers_of_whole_numbers_wrap_as_eager_ones(dtype: str):
    info = np.iinfo(dtype)
    x = cr.asarray(np.array([info.min, info.max, 0, 1, 2, 3, 7], dtype))
    powers = (0, 1, 2, 3, 5, 17, 64)
    got = cr.jit(lambda x: [x**p for p in powers])(x)
    for y, p in zip(got, powers, strict=True):
        want = x**p
        assert y.dtype == want.dtype
        np.testing.assert_array_equal(y, want, str(p))
