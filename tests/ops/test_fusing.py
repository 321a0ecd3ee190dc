"""Composites as kernels in eager calls: the same as op by op, to rounding, and no surprise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule import nn
from chainrule.engine.graph import order
from chainrule.nn import functional as F  # noqa: N812 (PyTorch's habit)
from chainrule.nn.recurrent.steps import gru, lstm
from chainrule.ops import eager_kernels, fusing
from tests.sampling import sampled

Make = Callable[[Any], tuple[Callable[..., Any], list[Any]]]
"""From a function that draws floats of a shape: a composite, and float arguments for it."""


def _classes(**how: Any) -> Make:
    def make(draw: Any) -> tuple[Callable[..., Any], list[Any]]:
        logits = draw(4, 6, 5)
        target = np.arange(24).reshape(4, 6) % 5
        if "weight" in how:
            of = {k: v for k, v in how.items() if k != "weight"}
            return lambda x, w: cr.cross_entropy(x, target, weight=w, **of), [logits, abs(draw(5))]
        return lambda x: cr.cross_entropy(x, target, **how), [logits]

    return make


CASES: dict[str, Make] = {
    "softmax": lambda draw: (cr.softmax, [draw(4, 3, 7)]),
    "softmax of one row": lambda draw: (cr.softmax, [draw(9)]),
    "softmax, axis 1 of 2": lambda draw: (partial(cr.softmax, axis=1), [draw(5, 4)]),
    "log_softmax": lambda draw: (cr.log_softmax, [draw(6, 5)]),
    "linear": lambda draw: (cr.linear, [draw(3, 4, 6), draw(5, 6), draw(5)]),
    "linear without bias": lambda draw: (cr.linear, [draw(4, 6), draw(5, 6)]),
    "linear of one row": lambda draw: (cr.linear, [draw(6), draw(5, 6), draw(5)]),
    "layer_norm": lambda draw: (cr.layer_norm, [draw(3, 4, 6), draw(6), draw(6)]),
    "layer_norm without bias": lambda draw: (cr.layer_norm, [draw(8, 6), draw(6)]),
    "layer_norm, eps": lambda draw: (lambda x: cr.layer_norm(x, eps=0.1), [draw(8, 6)]),
    "rms_norm": lambda draw: (cr.rms_norm, [draw(8, 6), draw(6)]),
    "gelu": lambda draw: (cr.gelu, [draw(4, 5)]),
    "gelu, tanh": lambda draw: (partial(cr.gelu, approximate="tanh"), [draw(4, 5, 2)]),
    "silu": lambda draw: (cr.silu, [draw(4, 5)]),
    "elu": lambda draw: (partial(F.elu, alpha=0.7), [draw(4, 5)]),
    "selu": lambda draw: (F.selu, [draw(4, 5)]),
    "celu": lambda draw: (partial(F.celu, alpha=0.7), [draw(4, 5)]),
    "softplus": lambda draw: (partial(F.softplus, beta=1.5, threshold=2.0), [draw(4, 5)]),
    "hardswish": lambda draw: (F.hardswish, [3 * draw(4, 5)]),
    "logsigmoid": lambda draw: (F.logsigmoid, [draw(4, 5)]),
    "batch_norm": lambda draw: (
        lambda x, w, b: cr.nn.functional.batch_norm(x, None, None, w, b, training=True).y,
        [draw(4, 3, 5, 2), draw(3), draw(3)],
    ),
    "batch_norm1d": lambda draw: (
        lambda x: cr.nn.functional.batch_norm(x, training=True, eps=0.1).y,
        [draw(7, 3)],
    ),
    "group_norm": lambda draw: (
        lambda x, w, b: F.group_norm(x, 2, w, b),
        [draw(3, 4, 5), draw(4), draw(4)],
    ),
    "lstm": lambda draw: (
        lambda x, share, c: lstm(x, share, (c, c))[0],
        [draw(3, 8), draw(3, 8), draw(3, 2)],
    ),
    "gru": lambda draw: (lambda x, s, h: gru(x, s, (h,))[0], [draw(3, 6), draw(3, 6), draw(3, 2)]),
    "mse_loss": lambda draw: (cr.mse_loss, [draw(4, 5), draw(4, 5)]),
    "mse_loss, none": lambda draw: (partial(cr.mse_loss, reduction="none"), [draw(6), draw(6)]),
    "l1_loss": lambda draw: (partial(F.l1_loss, reduction="sum"), [draw(4, 5), draw(4, 5)]),
    "huber_loss": lambda draw: (partial(F.huber_loss, delta=0.7), [draw(4, 5), draw(4, 5)]),
    "binary_cross_entropy_with_logits": lambda draw: (
        F.binary_cross_entropy_with_logits,
        [draw(4, 5), abs(np.tanh(draw(4, 5)))],
    ),
    "cross_entropy": _classes(),
    "cross_entropy, sum, smoothed": _classes(reduction="sum", label_smoothing=0.1),
    "cross_entropy, none": _classes(reduction="none"),
    "cross_entropy, some ignored": _classes(ignore_index=2),
    "cross_entropy, weights": _classes(weight=True, ignore_index=1, label_smoothing=0.2),
}


def drawn(dtype: Any, seed: int = 0) -> Callable[..., Any]:
    """What draws floats of a shape."""
    rng = np.random.default_rng(seed)
    return lambda *shape: np.asarray(rng.normal(size=shape) * 2, dtype)


@pytest.fixture(autouse=True)
def of_all_sizes(monkeypatch: pytest.MonkeyPatch):
    """Kernels whatever the size, so that tests are quick."""
    monkeypatch.setattr(eager_kernels, "LEAST", 1)


def names_in(y: Any) -> list[str]:
    """The ops in the graph of y."""
    return [n.name for n in order([y.node]) if n.op is not None]


def gradients(f: Callable[..., Any], xs: list[Any]) -> list[Any]:
    """The value of f, and its gradients for a random cotangent."""
    ts = [cr.tensor(x, requires_grad=True) for x in xs]
    y = f(*ts)
    y.backward(np.asarray(drawn(y.dtype, 5)(*y.shape), y.dtype))
    return [y.detach().numpy(), *[t.grad.numpy() for t in ts]]


def both(f: Callable[[], list[Any]]) -> tuple[list[Any], list[Any]]:
    """What f gives with kernels, and op by op."""
    ours = f()
    with cr.op_by_op():
        return ours, f()


def same(ours: list[Any], plain: list[Any]) -> None:
    """Equal to rounding, NaN and infinities alike."""
    for a, b in zip(ours, plain, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        near = 200 * np.finfo(a.dtype).eps
        scale = np.nanmax(np.abs(b), where=np.isfinite(b), initial=0)
        np.testing.assert_allclose(a, b, rtol=near, atol=near * scale)


@sampled(one_in=3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_parts(name: str, dtype: Any):
    f, xs = CASES[name](drawn(dtype))
    same(*both(lambda: gradients(f, xs)))


@pytest.mark.parametrize("name", CASES)
def test_a_call_is_one_op_that_keeps_its_inputs(name: str):
    f, xs = CASES[name](drawn(np.float32))
    y = f(*[cr.tensor(x, requires_grad=True) for x in xs])
    views = ("reshape", "output 0")
    assert [n for n in names_in(y) if n not in views] == [name.partition(",")[0].partition(" ")[0]]
    saved = cr.saved_bytes(y)
    assert saved.leaves + sum(row.bytes for row in saved.rows) >= sum(x.nbytes for x in xs)
    with cr.op_by_op():
        y = f(*[cr.tensor(x, requires_grad=True) for x in xs])
        assert len(names_in(y)) > 1 or name.split(",")[0] in ("gelu", "silu", "linear without bias")


@pytest.mark.parametrize("name", CASES)
def test_a_cotangent_may_be_a_number(name: str):
    f, xs = CASES[name](drawn(np.float32))
    ts = [cr.tensor(x, requires_grad=True) for x in xs]
    y = f(*ts)
    if y.ndim:  # without axes NumPy makes a number of g / 3
        y = y[(0,) * y.ndim]
    (y / 3).backward()
    got = [t.grad.numpy() for t in ts]
    whole = [cr.tensor(x, requires_grad=True) for x in xs]
    z = f(*whole)
    g = np.zeros(z.shape, z.dtype)
    g[(0,) * z.ndim] = 1
    z.backward(g)
    same([3 * g for g in got], [t.grad.numpy() for t in whole])


@pytest.mark.parametrize("f", [F.softplus, F.celu, partial(F.huber_loss, target=np.ones((4, 5)))])
def test_a_number_that_changes_from_step_to_step_compiles_nothing(f: Callable[..., Any]):
    x = cr.tensor(drawn(np.float64)(4, 5), requires_grad=True)
    name = "delta" if isinstance(f, partial) else "beta" if f is F.softplus else "alpha"
    f(x, **{name: 0.5}).sum().backward()
    made = fusing.value_kernel.cache_info().misses, fusing.pull_kernel.cache_info().misses
    for number in (0.25, 0.75, 2):
        same(*both(lambda number=number: [f(x, **{name: number}).detach().numpy()]))
        f(x, **{name: number}).sum().backward()
    now = fusing.value_kernel.cache_info().misses, fusing.pull_kernel.cache_info().misses
    assert now == made


@pytest.mark.parametrize("name", CASES)
def test_one_object_in_two_places_is_not_so_in_the_next_call(name: str):
    f, xs = CASES[name](drawn(np.float64))
    alike = [i for i, x in enumerate(xs[1:], 1) if x.shape == xs[0].shape]
    alike = alike or [i for i, x in enumerate(xs[2:], 2) if x.shape == xs[1].shape]
    fusing.composites[name.partition(",")[0].partition(" ")[0]].known.clear()
    ts = [cr.tensor(x, requires_grad=True) for x in xs]
    for i in alike:
        ts[i] = ts[i - 1]
    f(*ts)  # in which one tensor stands in two places
    same(*both(lambda: gradients(f, xs)))


def test_every_marked_composite_has_a_case():
    marked = set(fusing.composites)
    assert marked == {n.partition(",")[0].partition(" ")[0] for n in CASES}


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_and_tangents(name: str):
    f, xs = CASES[name](drawn(np.float64))
    u, v = drawn(np.float64, 1), drawn(np.float64, 2)
    ts = tuple([u(*x.shape) for x in xs])

    def loss(*args: Any) -> Any:
        y = f(*args)
        return (y * np.linspace(0.5, 2, y.size).reshape(y.shape)).sum()

    def found() -> list[Any]:
        first = cr.grad(lambda x: (cr.grad(loss)(x, *xs[1:]) * v(*xs[0].shape)).sum())(xs[0])
        forward = cr.jvp(f, tuple(xs), ts)[1]
        mixed = cr.jvp(lambda *a: cr.grad(loss)(*a), tuple(xs), ts)[1]
        return [r.detach().numpy() for r in (first, forward, mixed)]

    v = drawn(np.float64, 2)
    ours = found()
    v = drawn(np.float64, 2)
    with cr.op_by_op():
        same(ours, found())


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "gelu", "cross_entropy"])
def test_create_graph_and_a_second_backward(name: str):
    f, xs = CASES[name](drawn(np.float64))

    def found() -> list[Any]:
        x = cr.tensor(xs[0], requires_grad=True)
        f(x, *xs[1:]).sum().backward(create_graph=True)
        g = x.grad
        x.grad = None
        (g * g).sum().backward()
        return [x.grad.numpy()]

    same(*both(found))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (2, 3, 5), (37, 17), (2, 300)])
def test_one_kernel_is_for_all_sizes(shape: tuple[int, ...], dtype: Any):
    draw = drawn(dtype)
    xs = [draw(*shape), draw(shape[-1]), draw(shape[-1])]
    gradients(cr.layer_norm, CASES["layer_norm"](draw)[1])  # compiled, if no test has done so
    made = fusing.value_kernel.cache_info().misses, fusing.pull_kernel.cache_info().misses
    same(*both(lambda: gradients(cr.layer_norm, xs)))
    now = fusing.value_kernel.cache_info().misses, fusing.pull_kernel.cache_info().misses
    assert now == made
    same(*both(lambda: gradients(cr.softmax, xs[:1])))
    same(*both(lambda: gradients(cr.gelu, xs[:1])))


def test_only_the_size_decides(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eager_kernels, "LEAST", 20)
    for size, name in ((19, "exp_diff"), (20, "softmax"), (21, "softmax")):
        y = cr.softmax(cr.tensor(drawn(np.float32)(1, size), requires_grad=True))
        assert names_in(y)[0] == name


def test_a_large_array_as_it_is_shipped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    assert eager_kernels.LEAST == 1 << 5
    few = cr.tensor(drawn(np.float32)(8, 4), requires_grad=True)
    assert names_in(cr.softmax(few)) == ["softmax"] != names_in(cr.softmax(few[:, 1:]))
    x = drawn(np.float32)(512, 512)
    assert names_in(cr.silu(cr.tensor(x, requires_grad=True))) == ["silu"]
    y = cr.softmax(cr.tensor(x, requires_grad=True))
    assert names_in(y) == ["softmax"]
    same(*both(lambda: gradients(cr.softmax, [x])))


SPECIAL = np.array([
    [0.0, -0.0, 1.0, -1.0], [np.inf, 0.0, 1.0, 2.0], [-np.inf, 0.0, 1.0, 2.0],
    [np.nan, 0.0, 1.0, 2.0], [-np.inf] * 4, [1e30, -1e30, 1e-40, 88.0],
])  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "f", [cr.softmax, cr.log_softmax, cr.gelu, cr.silu, F.elu, partial(cr.gelu, approximate="tanh")]
)
def test_infinities_and_nan_are_the_same(f: Callable[..., Any], dtype: Any):
    rows = SPECIAL.astype(dtype)
    same(*both(lambda: [f(cr.tensor(rows)).numpy()]))


def test_losses_of_infinities():
    rows = np.array([[0.0, -np.inf, 1.0], [2.0, 1.0, np.inf], [np.nan, 1.0, 2.0]])
    target = np.array([1, 0, 2])
    loss = partial(cr.cross_entropy, target=target, reduction="none")
    same(*both(lambda: [loss(cr.tensor(rows)).numpy()]))


def test_arrays_that_do_not_lie_in_order():
    base = drawn(np.float32)(6, 2, 8)
    x = base.transpose(2, 0, 1)[::2, :, ::-1]
    assert not x.flags.c_contiguous

    def found() -> list[Any]:
        t = cr.tensor(base, requires_grad=True)
        y = cr.layer_norm(t.permute_dims((2, 0, 1))[::2, :, ::-1])
        (y.permute_dims((1, 0, 2)) * drawn(np.float32, 1)(6, 4, 2)).sum().backward()
        y.sum().detach()
        return [y.detach().numpy(), t.grad.numpy(), np.asarray(cr.softmax(x))]

    same(*both(found))


def test_arrays_in_arrays_out_and_nothing_recorded_without_need():
    x = drawn(np.float32)(4, 5)
    assert type(cr.softmax(x)) is np.ndarray
    assert cr.softmax(cr.tensor(x)).node is None
    with cr.no_grad():
        assert cr.softmax(cr.tensor(x, requires_grad=True)).node is None
    w = cr.tensor(drawn(np.float32)(5), requires_grad=True)
    cr.layer_norm(x, w).sum().backward()  # only the weight needs a gradient
    ours, w.grad = w.grad.numpy(), None
    with cr.op_by_op():
        cr.layer_norm(x, w).sum().backward()
    same([ours], [w.grad.numpy()])


@pytest.mark.parametrize("dtype", [np.float16, np.complex64])
def test_other_dtypes_run_op_by_op(dtype: Any):
    x = cr.tensor(drawn(np.float32)(4, 5).astype(dtype), requires_grad=True)
    assert "rms_norm" not in names_in(cr.rms_norm(x))


def test_arguments_that_have_no_kernel_run_op_by_op():
    x = cr.tensor(drawn(np.float32)(4, 5), requires_grad=True)
    assert names_in(cr.softmax(x, axis=0))[0] == "exp_diff"
    assert "layer_norm" not in names_in(cr.layer_norm(x, np.ones(5)))  # of another dtype
    with pytest.raises(cr.ShapeError):
        cr.layer_norm(x, np.ones(4, np.float32))
    with pytest.raises(TypeError, match="layer_norm"):
        cr.layer_norm(x, wait=1)


def test_classes_are_looked_at():
    x = drawn(np.float32)(4, 5)
    for wrong in (-1, 5):
        with pytest.raises(cr.IndexingError, match=f"class {wrong} is not among"):
            cr.cross_entropy(x, np.array([0, 1, wrong, 2]))
    assert np.isnan(cr.cross_entropy(x, np.full(4, -100), ignore_index=-100))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint64"])
@pytest.mark.parametrize("count", [5, 127, 128, 200])
def test_classes_of_every_dtype_are_looked_at(dtype: str, count: int):
    x, info = np.zeros((1, count), np.float32), np.iinfo(dtype)
    for index in {0, 1, count - 1, count, 127, 128, 255, -1, -100, -128, info.min, info.max}:
        if not info.min <= index <= info.max:
            continue
        target = np.array([index], dtype)
        if 0 <= index < count:
            assert cr.cross_entropy(x, target) > 0
        else:
            with pytest.raises(cr.IndexingError, match=f"class {index} is not among"):
                cr.cross_entropy(x, target)


def test_vmap_and_jit_see_the_parts():
    xs = drawn(np.float32)(3, 4, 5)
    rows = cr.vmap(cr.softmax)(xs).numpy()
    same([rows], [np.asarray(cr.softmax(xs))])
    per = cr.vmap(cr.grad(lambda x: (cr.layer_norm(x) ** 3).sum()))(xs)
    with cr.op_by_op():
        same([per.numpy()], [cr.vmap(cr.grad(lambda x: (cr.layer_norm(x) ** 3).sum()))(xs).numpy()])
    step = cr.jit(lambda x: cr.softmax(x) + cr.softmax(cr.tensor(xs[0])))
    same([step(cr.tensor(xs[1])).numpy()], [np.asarray(cr.softmax(xs[1]) + cr.softmax(xs[0]))])
    assert "'softmax'" not in step.loops()  # which names what has no loops


def test_vmap_over_cotangents_of_a_kernel():
    x = drawn(np.float64)(3, 4)
    y, back = cr.vjp(cr.softmax, x)
    gs = drawn(np.float64, 1)(5, 3, 4)
    each = np.stack([back(g)[0].numpy() for g in gs])
    same([cr.vmap(back)(gs)[0].detach().numpy()], [each])
    assert y.shape == x.shape


def test_watching_changes_no_bit():
    x = drawn(np.float32)(64, 65)
    ours = gradients(cr.layer_norm, [x])
    with cr.strict(), cr.trap_nan():
        watched = gradients(cr.layer_norm, [x])
    assert all(np.array_equal(a, b) for a, b in zip(ours, watched, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_gradients_share_no_memory_with_a_cotangent(name: str):
    """So `backward` need not copy it: nobody changes a gradient through it."""
    f, xs = CASES[name](drawn(np.float64))
    ts = [cr.tensor(x, requires_grad=True) for x in xs]
    y = f(*ts)
    g = np.asarray(drawn(np.float64, 5)(*y.shape))
    y.backward(g)
    grads = [t.grad.numpy() for t in ts]
    before = [a.copy() for a in grads]
    g[...] = np.nan
    assert all(np.array_equal(a, b) for a, b in zip(grads, before, strict=True))


def test_who_is_handed_a_cotangent_gets_one_of_its_own():
    x, g = cr.tensor(drawn(np.float32)(4, 5), requires_grad=True), drawn(np.float32, 1)(4, 5)
    seen: list[Any] = []
    hooked, kept = cr.softmax(x), cr.softmax(x)
    hooked.register_hook(seen.append)
    kept.retain_grad()
    hooked.backward(g)
    kept.backward(g)
    x.grad = None
    (x + 0).backward(g)
    wanted = g.copy()
    g[...] = 0
    for got in (seen[0], kept.grad, x.grad):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_the_trap_names_the_composite():
    x = cr.tensor(np.array([[np.inf, 1.0], [1.0, 2.0]]), requires_grad=True)
    with (
        pytest.raises(cr.ChainruleError, match=r"NaN made by 'softmax' at\s.*test_fusing"),
        cr.trap_nan(),
    ):
        cr.softmax(x)


def test_autocast_sees_the_parts():
    x = cr.tensor(drawn(np.float32)(4, 5), requires_grad=True)
    with cr.autocast():
        assert "softmax" not in names_in(cr.softmax(x.astype(cr.float16)))


@pytest.mark.parametrize("policy", [None, cr.keep_products, lambda op: op.name == "layer_norm"])
def test_checkpoints_give_the_same_bits(policy: Any):
    draw = drawn(np.float32)
    w, x = draw(6, 6), draw(8, 6)

    def f(x: Any) -> Any:
        return cr.gelu(cr.layer_norm(x) @ w) ** 2

    ours = gradients(f, [x])
    again = gradients(cr.checkpoint(f, policy=policy), [x])
    assert all(np.array_equal(a, b) for a, b in zip(ours, again, strict=True))


def test_a_checkpoint_remembers_whether_it_ran_op_by_op():
    x = cr.tensor(drawn(np.float32)(64, 65), requires_grad=True)
    f = cr.checkpoint(lambda x: cr.layer_norm(x).exp())
    with cr.op_by_op():
        y = f(x)
    y.sum().backward()  # raises if the second run were another
    y = f(x)
    with cr.op_by_op():
        y.sum().backward()


def test_threads_with_different_sizes():
    draw = drawn(np.float32)
    xs = [draw(20 + i, 30 + i) for i in range(8)] * 5
    with ThreadPoolExecutor(4) as pool:
        ours = list(pool.map(lambda x: np.asarray(cr.softmax(x)), xs))
    with cr.op_by_op():
        same(ours, [np.asarray(cr.softmax(x)) for x in xs])


def test_a_module_trains_the_same():
    def losses() -> list[Any]:
        cr.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 3))
        opt = cr.optim.SGD(model.parameters(), lr=0.5)
        x, t = drawn(np.float32)(16, 6), np.arange(16) % 3
        out: list[float] = []
        for _ in range(20):
            opt.zero_grad()
            loss = cr.cross_entropy(model(cr.tensor(x)), t)
            loss.backward()
            opt.step()
            out.append(loss.item())
        return [np.array(out)]

    ours, plain = both(losses)
    np.testing.assert_allclose(ours[0], plain[0], rtol=1e-5)
    assert ours[0][-1] < 0.7 * ours[0][0]


def test_the_environment_switches_it_off():
    code = (
        "import chainrule as cr; x = cr.ones((512, 512)).requires_grad_(); "
        "print(cr.softmax(x).node.name)"
    )
    for value, name in (("", "softmax"), ("0", "softmax"), ("1", "exp_diff")):
        env = {**os.environ, "CHAINRULE_OP_BY_OP": value}
        run = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == name


# --- Among other ops -----------------------------------------------------------------------------

COMPOSITES: list[Callable[[Any], Any]] = [
    cr.softmax, cr.log_softmax, cr.layer_norm, cr.rms_norm, cr.gelu, cr.silu, F.elu, F.softplus,
    F.hardswish, lambda x: cr.mse_loss(x, x * 0.5),
    lambda x: F.huber_loss(x, cr.flip(x, axis=-1), reduction="none"),
    lambda x: cr.cross_entropy(x, np.zeros(x.shape[:-1], np.int64)),
]  # fmt: skip
"""Whose slopes have no jump: where rounding decides on which side of one a value lies, it may."""
OTHERS: list[Callable[[Any], Any]] = [
    lambda x: x / 3, lambda x: 2 * x + 1, cr.tanh, lambda x: x.sum(), lambda x: x[..., ::-1],
    lambda x: x.mean(axis=0, keepdims=True) * x, lambda x: x.sum(axis=-1, keepdims=True) + x,
    lambda x: cr.moveaxis(x, 0, -1), lambda x: x[:1], lambda x: x.reshape(-1),
    lambda x: cr.stack([x, x * 2]), lambda x: cr.broadcast_to(x, (2, *x.shape)),
]  # fmt: skip


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 99), st.integers(0, 99)), min_size=2, max_size=7
    )
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_programs_are_those_op_by_op(steps: list[tuple[bool, int, int]]):
    """Whatever its cotangent is: a number, a view that repeats or is reversed, a sum of several."""

    def program(x: Any) -> Any:
        values = [x]
        for composite, which, where in steps:
            fs = COMPOSITES if composite else OTHERS
            y = values[where % len(values)]
            values.append(fs[which % len(fs)](y if y.ndim else y + np.zeros(3)))
        return sum([0.7 * v.sum() for v in values[1:]], cr.zeros((), dtype=np.float64))

    x = np.asarray(drawn(np.float64)(3, 4))
    for got, want in zip(*both(lambda: gradients(program, [x])), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8 * (1 + np.abs(want).max()))
