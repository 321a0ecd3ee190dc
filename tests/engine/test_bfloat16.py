"""bfloat16: promotion, gradients against float32, sums in float32, printing, exchange."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.engine.graph import placeholder
from chainrule.engine.op import Spec
from chainrule.nn import functional as F  # noqa: N812
from chainrule.ops.families import rows
from tests.ops.samples_elementwise import BY_LAST

BRAIN, HALF, SINGLE, DOUBLE = cr.bfloat16, cr.float16, cr.float32, cr.float64
EPS = 2.0**-8
"""Half the distance from 1 to the next bfloat16: what one rounding costs at most, relatively."""


def brain(values: Any, **options: Any) -> Any:
    return cr.tensor(np.asarray(values, SINGLE), dtype=BRAIN, **options)


def wide(x: Any) -> Any:
    """The numbers of a tensor as float64."""
    return x.detach().numpy().astype(DOUBLE)


def numbers(*shape: int, seed: int = 0, low: float = -1.5, high: float = 1.5) -> Any:
    """Random numbers that bfloat16 holds exactly, and of which no two are equal or 0."""
    found = np.random.default_rng(seed).uniform(low, high, shape)
    return brain(found)


def both(f: Any, *xs: Any) -> tuple[list[Any], list[Any]]:
    """Value and gradients of f on bfloat16, and on the same numbers in float32."""
    out: list[list[Any]] = []
    for dtype in (BRAIN, SINGLE):
        ts = [x.astype(dtype).detach().requires_grad_() for x in xs]
        y = f(*ts)
        assert y.dtype == dtype
        # a cotangent that is not the same everywhere, and that bfloat16 holds exactly
        g = (np.arange(y.size).reshape(y.shape) % 7 - 3) / 4
        y.backward(cr.tensor(g, dtype=dtype))
        assert all(t.grad.dtype == dtype for t in ts)
        out.append([wide(y), *[wide(t.grad) for t in ts]])
    return out[0], out[1]


def agree(f: Any, *xs: Any, roundings: int = 2) -> None:
    """f in bfloat16 is f in float32, up to so many roundings, relative to the largest element."""
    for got, want in zip(*both(f, *xs), strict=True):
        scale = np.abs(want).max() if want.size else 0
        assert np.abs(got - want).max(initial=0) <= roundings * EPS * scale


# --- Dtypes and promotion ------------------------------------------------------------------------


def test_importing_chainrule_does_not_import_ml_dtypes():
    code = "import sys, chainrule as cr; assert 'ml_dtypes' not in sys.modules; cr.bfloat16"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_dtype_like_any_other():
    for made in (
        cr.zeros(3, dtype=BRAIN), cr.ones((2, 2), BRAIN), cr.full(2, 1.5, dtype=BRAIN),
        cr.arange(4, dtype=BRAIN), cr.linspace(0, 1, 5, dtype=BRAIN), cr.eye(3, dtype=BRAIN),
        cr.tensor([1, 2], dtype=BRAIN), cr.tensor([1.0]).astype(BRAIN), cr.asarray([1.0], BRAIN),
        nn.Linear(2, 3, dtype=BRAIN).weight,
    ):  # fmt: skip
        assert made.dtype == BRAIN and made.nbytes == 2 * made.size
    assert "bfloat16" in dir(cr)
    assert cr.finfo(BRAIN).bits == 16 and cr.finfo(BRAIN).eps == 2 * EPS
    assert cr.finfo(BRAIN).max > 3e38
    assert cr.isdtype(BRAIN, "real floating") and cr.isdtype(BRAIN, ("bool", BRAIN))
    assert not cr.isdtype(BRAIN, ("integral", "complex floating"))
    assert cr.can_cast(BRAIN, SINGLE) and not cr.can_cast(SINGLE, BRAIN)
    with pytest.raises(cr.DtypeError):
        cr.iinfo(BRAIN)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "int4", "uint1"])
def test_other_dtypes_of_ml_dtypes_are_refused(kind: str):
    import ml_dtypes

    with pytest.raises(cr.DtypeError, match="a tensor holds numbers or bools"):
        cr.tensor(np.ones(2, getattr(ml_dtypes, kind)))


OTHERS: list[tuple[Any, Any]] = [
    (1, BRAIN), (0.1, BRAIN), (True, BRAIN), (np.bool_(True), BRAIN),
    (cr.ones(3, dtype=np.bool_), BRAIN), (cr.ones(3, dtype=BRAIN), BRAIN),
    (cr.ones(3, dtype=HALF), SINGLE), (cr.ones(3), SINGLE), (cr.ones(3, dtype=DOUBLE), DOUBLE),
    (np.float32(2), SINGLE), (cr.ones(3, dtype=np.int64), DOUBLE),
    (cr.ones(3, dtype=np.int8), BRAIN),
    (cr.ones(3, dtype=np.complex64), np.complex64),
]  # fmt: skip


@pytest.mark.parametrize(("other", "want"), OTHERS, ids=lambda v: str(getattr(v, "dtype", v)))
@pytest.mark.parametrize("grad", [False, True])
def test_promotion(other: Any, want: Any, grad: bool):
    x = brain([1.0, 2.0, 3.0], requires_grad=grad)
    for y in (
        x * other,
        other * x,
        x + other,
        cr.where(x > 2, x, other),
        cr.where(x > 2, other, x),
    ):
        assert y.dtype == want
    assert cr.result_type(x, getattr(other, "dtype", other)) == want
    if isinstance(other, cr.Tensor):
        assert cr.concat([x, other]).dtype == want
        assert cr.where(x > 2, other, x).dtype == want


def test_a_python_number_is_not_rounded_before_it_is_used():
    x = brain([3.0])
    assert (x * 0.1).tolist() == brain([0.3]).tolist()
    assert (x + 1e300).tolist() == [np.inf]


def test_placeholders_promote_as_values_do():
    x = numbers(3, 4)
    for f in (lambda v: v * 0.5, lambda v: cr.where(v > 0, v, 0.0), lambda v: cr.clip(v, -0.5, 1)):
        rowwise = cr.vmap(f)(x)
        assert rowwise.dtype == BRAIN and rowwise.tolist() == f(x).tolist()


MEETINGS: dict[str, Any] = {
    "a factor": lambda x, s: x * s,
    "from the left": lambda x, s: s - x,
    "a power": lambda x, s: x**s,
    "the larger": cr.maximum,
    "a choice": lambda x, s: cr.where(x > 0, x, s),
    "a limit": lambda x, s: cr.clip(x, None, s),
}


@pytest.mark.parametrize("dtype", [BRAIN, HALF, SINGLE, DOUBLE])
@pytest.mark.parametrize("meeting", MEETINGS)
def test_a_number_that_is_not_known_yet_takes_the_dtype_of_what_it_meets(meeting: str, dtype: Any):
    f = MEETINGS[meeting]
    known = cr.tensor([0.5, 1.5], dtype)
    x, s = placeholder((2,), dtype), placeholder((), np.float64)
    s.value = Spec((), np.dtype(np.float64), weak=True)
    assert f(known, 0.75).dtype == dtype
    assert f(x, 0.75).dtype == dtype
    assert f(x, s).dtype == f(x, cr.tensor(0.75, dtype)).dtype == dtype
    s.value = Spec((), np.dtype(np.float64))  # an array of that dtype is another matter
    assert f(x, s).dtype == f(known, cr.tensor(0.75, DOUBLE)).dtype == DOUBLE


def test_a_whole_number_beside_a_bfloat16_becomes_one_a_float_does_not():
    x = brain([1.0, 3.0])
    assert (x * 257).tolist() == (x * brain([257.0])).tolist() == [256.0, 768.0]
    assert (x * 257.0).tolist() == [256.0, 772.0]  # of 771 the nearest


@pytest.mark.parametrize("f", [lambda x, s: x * s, lambda x, s: cr.where(x > s, x, s)])
def test_a_compiled_function_promotes_as_the_function(f: Any):
    x = brain([1.0, 3.0])
    for g in (f, lambda x, s: f(x, 2.5)):
        y = cr.jit(g)(x, 2.5)
        assert y.dtype == BRAIN and y.tolist() == f(x, 2.5).tolist()


# --- Gradients -----------------------------------------------------------------------------------

AROUND: dict[str, tuple[float, float]] = {
    "acosh": (1.5, 3.0), "digamma": (1.0, 3.0), "lgamma": (2.5, 4.0), "log": (1.5, 3.0),
    "log2": (1.5, 3.0), "log10": (1.5, 3.0), "erfinv": (0.2, 0.8), "ndtri": (0.6, 0.9),
    "sqrt": (0.5, 2.0), "rsqrt": (0.5, 2.0), "cbrt": (0.5, 2.0), "reciprocal": (0.5, 2.0),
    "log1p": (0.5, 2.0), "atanh": (0.1, 0.7), "asin": (0.1, 0.7), "acos": (0.1, 0.7),
    "logit": (0.6, 0.9), "entr": (0.5, 0.9), "i0": (0.5, 2.0), "i1": (0.5, 2.0), "i0e": (0.5, 2.0),
    "i1e": (0.5, 2.0), "tan": (0.1, 1.0), "pow": (0.5, 2.0), "xlogy": (1.5, 2.5), "div": (0.5, 2.0),
    "xlog1py": (0.5, 2.5), "remainder": (0.5, 1.5), "fmod": (0.5, 1.5), "erfc": (-1.0, 0.5),
    "erfinv_slope": (0.2, 0.8), "ndtri_slope": (0.6, 0.9),
    "erfinv_bend": (0.2, 0.8), "ndtri_bend": (0.6, 0.9), "logit_slope": (0.6, 0.9),
    "entr_slope": (0.5, 0.9), **dict.fromkeys(("y0", "y1", "k0", "k0e", "k1", "k1e"), (0.5, 1.5)),
    "j1": (0.3, 1.2),
}  # fmt: skip
"""Where an op is to be tried, if not between -1.5 and 1.5."""
ORDERED = {"polygamma", "spherical_jn", "gamma_density", "beta_density", *BY_LAST}
TABLE = sorted(n for n, r in rows.items() if r.partials and n not in ORDERED)


@pytest.mark.parametrize("name", TABLE)
def test_every_elementwise_op(name: str):
    op = rows[name]
    low, high = AROUND.get(name, (-1.5, 1.5))
    xs = [numbers(5, 6, seed=i, low=low, high=high) for i in range(len(op.partials))]
    agree(op, *xs, roundings=4)


INDEX = cr.tensor([[0, 2], [2, 1]])
COMMON: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "matmul": (lambda a, b: a @ b, ((4, 64), (64, 5))),
    "batched matmul": (lambda a, b: a @ b, ((2, 4, 8), (8, 5))),
    "einsum": (lambda a, b: cr.einsum("ij,kj->ik", a, b), ((4, 8), (5, 8))),
    "linear": (cr.linear, ((6, 8), (3, 8), (3,))),
    "sum": (lambda a: cr.sum(a, axis=0), ((300, 3),)),
    "mean": (lambda a: cr.mean(a, axis=1), ((3, 50),)),
    "var": (lambda a: cr.var(a, axis=1), ((3, 50),)),
    "std": (lambda a: cr.std(a, axis=1), ((3, 50),)),
    "prod": (lambda a: cr.prod(a, axis=1), ((3, 6),)),
    "max": (lambda a: cr.max(a, axis=1), ((3, 6),)),
    "norm": (lambda a: cr.norm(a, axis=1), ((3, 40),)),
    "logsumexp": (lambda a: cr.logsumexp(a * 4, axis=1), ((3, 40),)),
    "softmax": (cr.softmax, ((4, 20),)),
    "log_softmax": (cr.log_softmax, ((4, 20),)),
    "cumulative_sum": (lambda a: cr.cumulative_sum(a, axis=0), ((200, 2),)),
    "cumulative_prod": (lambda a: cr.cumulative_prod(a, axis=0), ((5, 2),)),
    "logcumsumexp": (lambda a: cr.logcumsumexp(a, axis=0), ((20, 2),)),
    "layer_norm": (cr.layer_norm, ((4, 30), (30,), (30,))),
    "rms_norm": (cr.rms_norm, ((4, 30), (30,))),
    "group_norm": (lambda a: F.group_norm(a, 2), ((2, 4, 5),)),
    "gelu": (cr.gelu, ((5, 6),)),
    "attention": (
        lambda q, k, v: cr.scaled_dot_product_attention(q, k, v, causal=True),
        ((2, 7, 4), (2, 7, 4), (2, 7, 4)),
    ),
    "embedding": (lambda w: cr.embedding(w, INDEX), ((3, 4),)),
    "indexing": (lambda a: a[[0, 2, 2], 1:], ((3, 4),)),
    "slicing": (lambda a: a[::2, None, ::-1], ((5, 4),)),
    "take_along_axis": (lambda a: cr.take_along_axis(a, INDEX, axis=0), ((3, 2),)),
    "where": (lambda a, b: cr.where(a > 0, a, b * 2.0), ((3, 4), (3, 4))),
    "clip": (lambda a: cr.clip(a, -1, 0.5), ((5, 5),)),
    "concat": (lambda a, b: cr.concat([a, b], axis=1), ((3, 2), (3, 4))),
    "sort": (lambda a: cr.sort(a, axis=0), ((7, 2),)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), ((2, 3, 6, 5), (4, 3, 3, 3), (4,))),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        ((2, 3, 4, 3), (3, 2, 3, 3)),
    ),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), ((2, 2, 6, 4),)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), ((2, 2, 6, 4),)),
    "broadcasting": (lambda a, b: a * b + b, ((50, 4), (4,))),
}


@pytest.mark.parametrize("what", COMMON)
def test_common_functions(what: str):
    f, shapes = COMMON[what]
    agree(f, *[numbers(*shape, seed=i) for i, shape in enumerate(shapes)], roundings=4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_large_logits(smoothing: float):
    logits, target = numbers(6, 40, low=-20, high=20), cr.tensor([3, 1, 0, 15, 39, 7])
    agree(lambda v: cr.cross_entropy(v, target, label_smoothing=smoothing), logits)
    agree(lambda v: cr.cross_entropy(v, target, reduction="none"), logits)


def test_softmax_is_rounded_once():
    x = numbers(5, 50, low=-10, high=10)
    exact = np.exp(wide(x)) / np.exp(wide(x)).sum(-1, keepdims=True)
    assert np.abs(wide(cr.softmax(x)) / exact - 1).max() <= 1.001 * EPS
    product = wide(x) @ wide(x).T
    assert np.all(np.abs(wide(cr.matmul(x, x.T)) - product) <= 1.001 * EPS * np.abs(product) + 1e-4)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: cr.sum(v), lambda v: cr.ones((1, 3000), dtype=BRAIN) @ v[:, None],
        lambda v: cr.einsum("i,i->", v, v), lambda v: cr.cumulative_sum(v)[-1],
        lambda v: cr.sum(v[:, None] * cr.ones((1, 2), dtype=BRAIN), axis=0)[0],
    ],
)  # fmt: skip
def test_long_sums_do_not_stop(f: Any):
    assert (brain([256.0]) + 1.0).tolist() == [256.0]  # where a sum in bfloat16 would stop
    assert f(cr.ones(3000, dtype=BRAIN)).item() == brain([3000.0]).item()


def test_derivatives_of_every_mode():
    x, t = numbers(6), numbers(6, seed=1)

    def f(v: Any) -> Any:
        return cr.sum(cr.tanh(v * 0.5) ** 3 + cr.exp(v))

    xs, ts = x.astype(SINGLE), t.astype(SINGLE)
    for got, want in (
        (cr.grad(f)(x), cr.grad(f)(xs)),
        (cr.jvp(f, (x,), (t,))[1], cr.jvp(f, (xs,), (ts,))[1]),
        (cr.hvp(f, (x,), (t,))[0], cr.hvp(f, (xs,), (ts,))[0]),
        (
            cr.vmap(cr.grad(f))(x[:, None]),
            cr.vmap(cr.grad(f))(xs[:, None]),
        ),
    ):
        assert got.dtype == BRAIN
        assert np.abs(wide(got) - wide(want)).max() <= 8 * EPS * np.abs(wide(want)).max()


def test_a_gradient_of_1e_8_survives_where_float16_loses_it():
    for dtype, want in ((HALF, 0.0), (BRAIN, 1e-8)):
        x = cr.tensor([1.0], dtype=dtype, requires_grad=True)
        ((x * 1.0).astype(SINGLE) * cr.tensor([1e-8])).sum().backward()
        assert x.grad.dtype == dtype
        assert x.grad.item() == pytest.approx(want, rel=EPS)


def test_a_model_and_its_optimizer_in_bfloat16():
    generator = cr.Generator(0)
    model = nn.Sequential(
        nn.Linear(4, 8, dtype=BRAIN, generator=generator),
        nn.GELU(),
        nn.RMSNorm(8, dtype=BRAIN),
        nn.Linear(8, 3, dtype=BRAIN, generator=generator),
    )
    x, target = numbers(30, 4), cr.tensor(np.arange(30) % 3)
    adam, losses = optim.AdamW(model.parameters(), lr=0.02), []
    for _ in range(80):
        adam.zero_grad()
        loss = cr.cross_entropy(model(x), target)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert loss.dtype == BRAIN and all(p.dtype == BRAIN for p in model.parameters())
    assert losses[-1] < 0.8 * losses[0]


# --- Against PyTorch -----------------------------------------------------------------------------


def test_pytorch_agrees_on_values_and_gradients():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    pairs: list[tuple[Any, Any]] = [
        (lambda v: v * 0.1, lambda v: v * 0.1),
        (lambda v: v + 1, lambda v: v + 1),
        (cr.exp, torch.exp), (cr.tanh, torch.tanh), (cr.sigmoid, torch.sigmoid),
        (cr.gelu, functional.gelu), (cr.silu, functional.silu),
        (cr.softmax, lambda v: torch.softmax(v, -1)),
        (cr.log_softmax, lambda v: torch.log_softmax(v, -1)),
        (lambda v: cr.sum(v, axis=0), lambda v: v.sum(0)),
        (lambda v: v @ v.T, lambda v: v @ v.T),
        (cr.layer_norm, lambda v: functional.layer_norm(v, v.shape[-1:])),
    ]  # fmt: skip
    x = numbers(8, 8)
    for ours, theirs in pairs:
        v, tv = x.detach().requires_grad_(), torch.tensor(wide(x)).bfloat16().requires_grad_()
        y, ty = ours(v), theirs(tv)
        y.backward(cr.ones(y.shape, dtype=BRAIN))
        ty.backward(torch.ones_like(ty))
        assert str(ty.dtype) == f"torch.{y.dtype}"
        for got, want in ((y, ty), (v.grad, tv.grad)):
            theirs_wide = want.detach().double().numpy()
            scale = max(np.abs(theirs_wide).max(), 1)
            assert np.abs(wide(got) - theirs_wide).max() <= 4 * EPS * scale


# --- Printing and exchange -----------------------------------------------------------------------


def test_printing():
    assert repr(brain([1.0, -0.1])) == "tensor([ 1.    , -0.1001], dtype=bfloat16)"
    assert brain([1.5]).item() == 1.5 and brain([0.5, 2]).tolist() == [0.5, 2.0]
    assert f"{float(brain([0.25]))}" == "0.25"


def test_numpy_and_pickle():
    x = numbers(3, 2)
    array = x.numpy()
    assert array.dtype == BRAIN and cr.tensor(array).tolist() == x.tolist()
    assert np.asarray(x, SINGLE).tolist() == x.tolist()
    assert np.exp(x).dtype == BRAIN and np.multiply(x, 0.5).dtype == BRAIN
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype == BRAIN and again.tolist() == x.tolist()


def test_safetensors(tmp_path: Path):
    from chainrule.interop.safetensors import load_file, save_file

    x = numbers(3, 2)
    save_file({"x": x, "y": cr.ones(2)}, tmp_path / "w.safetensors")
    found = load_file(tmp_path / "w.safetensors")
    assert found["x"].dtype == BRAIN and found["x"].tolist() == x.tolist()
    assert b'"dtype":"BF16"' in (tmp_path / "w.safetensors").read_bytes()[:200]


@pytest.mark.parametrize("shape", [(3, 2), (), (0, 2)])
def test_dlpack(shape: tuple[int, ...]):
    x = numbers(*shape)
    back = cr.from_dlpack(_Foreign(x))
    assert back.dtype == BRAIN and back.shape == shape and back.tolist() == x.tolist()
    torch = pytest.importorskip("torch")
    theirs = torch.from_dlpack(x)
    assert theirs.dtype == torch.bfloat16 and theirs.float().tolist() == x.tolist()
    for ours in (cr.from_dlpack(theirs), cr.tensor(theirs), cr.asarray(theirs.clone())):
        assert ours.dtype == BRAIN and ours.tolist() == x.tolist()
    assert cr.tensor(x.numpy()).dtype == cr.from_dlpack(x.numpy()).dtype == BRAIN


class _Foreign:
    """Somebody else's array: one that only speaks DLPack, of one of its versions."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __dlpack__(self) -> Any:  # before version 1.0: no arguments
        return self._x.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._x.__dlpack_device__()


def test_linear_algebra_says_what_to_do():
    with pytest.raises(cr.DtypeError, match=r"bfloat16 is too coarse; say x.astype\('float32'\)"):
        cr.linalg.inv(numbers(2, 2))
    assert cr.fft.fft(numbers(8)).dtype == np.complex64
