"""Each checker takes `f` and its arguments and raises AssertionError where two answers differ.

`test_mutations.py` shows each of them to fail on a planted mistake.

Notation: `xs` float64 arguments, `g` a cotangent of the result, `ts` tangents of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.engine.derive import pullback_nodes
from chainrule.engine.graph import order, placeholder, variable
from chainrule.engine.op import Op, Spec
from chainrule.ops.families import Linear, Multilinear, rows
from tests.ops.sample import Array, cotangent

EPS = float(np.finfo(np.float64).eps)
F = Callable[..., Any]


def flows(xs: Sequence[Any]) -> list[int]:
    """Which arguments can be differentiated."""
    return [i for i, x in enumerate(xs) if np.asarray(x).dtype.kind == "f"]


def single(f: F) -> F:
    """`f` with a result that is one array: several are flattened and joined."""

    def joined(*xs: Any) -> Any:
        y = f(*xs)
        if not isinstance(y, tuple | list):
            return y
        return cr.concat([cr.flatten(part) for part in y])

    return joined


def of_floats(f: F, xs: Sequence[Any]) -> tuple[F, list[Any]]:
    """`f` as a function of its differentiable arguments alone, and those."""
    places = flows(xs)

    def partly(*floats: Any) -> Any:
        full = list(xs)
        for i, x in zip(places, floats, strict=True):
            full[i] = x
        return single(f)(*[x if isinstance(x, cr.Tensor) else cr.asarray(x) for x in full])

    return partly, [xs[i] for i in places]


def close(got: Any, want: Any, relative: float, noise: float = 0.0, what: str = "") -> None:
    """`got` is `want` up to `relative` of its largest element, plus `noise`."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if want.size == 0:
        return
    assert np.array_equal(np.isfinite(got), np.isfinite(want)), f"{what}: {got} is not {want}"
    finite = np.isfinite(want)
    if not finite.any():
        return
    limit = relative * np.abs(want[finite]).max() + noise
    worst = np.abs(got[finite] - want[finite]).max()
    assert worst <= limit, f"{what}: off by {worst:.3g}, allowed {limit:.3g}\n{got}\n{want}"


def numeric_gradient(h: Callable[..., float], xs: Sequence[Array], i: int) -> tuple[Array, float]:
    """Gradient of the number `h(*xs)` for argument i, and how far rounding may have moved it.

    Central differences with two steps, extrapolated (Richardson): the error falls as step**4.
    """
    out = np.zeros(xs[i].shape)
    noise = 0.0
    for place in np.ndindex(xs[i].shape):
        step = 2e-3 * max(abs(float(xs[i][place])), 0.1)
        slopes: list[float] = []
        for s in (step, step / 2):
            high, low = _moved(h, xs, i, place, s), _moved(h, xs, i, place, -s)
            slopes.append((high - low) / (2 * s))
            noise = max(noise, 40 * EPS * max(abs(high), abs(low), 1e-3) / s)
        out[place] = (4 * slopes[1] - slopes[0]) / 3
    return out, noise


def _moved(h: Callable[..., float], xs: Sequence[Array], i: int, place: Any, by: float) -> float:
    moved = [np.array(x) for x in xs]
    moved[i][place] += by
    return h(*moved)


# --- One derivative against another --------------------------------------------------------------


def differences(f: F, xs: Sequence[Any]) -> None:
    """The vjp is what central differences of <g, f> say."""
    f, xs = of_floats(f, xs)
    y, pull = cr.vjp(f, *xs)
    g = cotangent(y)

    def h(*moved: Array) -> float:
        return float(np.vdot(g, f(*moved).numpy()))

    for i, bar in enumerate(pull(g)):
        want, noise = numeric_gradient(h, xs, i)
        close(bar.numpy(), want, 2e-7, noise, f"gradient of argument {i}")


def adjoint(f: F, xs: Sequence[Any]) -> None:
    """<g, jvp t> = <vjp g, t>."""
    f, xs = of_floats(f, xs)
    ts = [cotangent(x, salt=i) for i, x in enumerate(xs)]
    _, y_dot = cr.jvp(f, xs, ts)
    y, pull = cr.vjp(f, *xs)
    g = cotangent(y)
    bars = pull(g)
    left = float(np.vdot(g, y_dot.numpy()))
    right = sum(float(np.vdot(b.numpy(), t)) for b, t in zip(bars, ts, strict=True))
    scale = float(np.vdot(np.abs(g), np.abs(y_dot.numpy())))
    assert abs(left - right) <= 1e-11 * scale + 1e-13, f"<g, jvp t> = {left}, <vjp g, t> = {right}"


def second_order(f: F, xs: Sequence[Any]) -> None:
    """The gradient of <u, vjp g> is what central differences of it say."""
    f, xs = of_floats(f, xs)
    us = [cotangent(x, salt=3 + i) for i, x in enumerate(xs)]

    def first(*moved: Any) -> Any:
        y, pull = cr.vjp(f, *moved)
        bars = pull(cotangent(y))
        return sum((cr.sum(b * u) for b, u in zip(bars, us, strict=True)), cr.zeros((), np.float64))

    differences(first, xs)


def _linear(op: Op) -> bool:
    """Whether the op's jvp is made of the op itself, which says nothing more."""
    made_of_itself = [rows[k] for k in ("add", "sub", "mul", "neg", "positive", "strong_mul")]
    return isinstance(op, Linear | Multilinear) or op in made_of_itself


@contextmanager
def without_rule(ops: Sequence[Op], rule: str) -> Any:
    """Within it, `ops` do not state the rule "vjp" or "jvp": it is derived from the other one."""
    with ExitStack() as stack:
        for op in ops:
            object.__setattr__(op, f"states_{rule}", False)
            stack.callback(object.__delattr__, op, f"states_{rule}")
        yield


def ops_of(f: F, xs: Sequence[Any]) -> list[Op]:
    """The ops in the graph of f(*xs), each once."""
    f, xs = of_floats(f, xs)
    y = f(*[cr.tensor(x, requires_grad=True) for x in xs])
    nodes = order([y.node]) if y.node is not None else []
    return list(dict.fromkeys(n.op for n in nodes if n.op is not None))


def transposed(f: F, xs: Sequence[Any]) -> None:
    """jvp and vjp as stated are those that transposing the other one gives."""
    ops = ops_of(f, xs)
    f, xs = of_floats(f, xs)
    ts = [cotangent(x, salt=i) for i, x in enumerate(xs)]
    _, y_dot = cr.jvp(f, xs, ts)
    with without_rule([op for op in ops if op.states_vjp], "jvp"):
        _, derived = cr.jvp(f, xs, ts)
    close(derived.numpy(), y_dot.numpy(), 1e-11, 1e-14, "jvp by transposing the vjp")
    y, pull = cr.vjp(f, *xs)
    bars = pull(cotangent(y))
    with without_rule([op for op in ops if op.states_jvp and not _linear(op)], "vjp"):
        others = pull(cotangent(y))
    for bar, other in zip(bars, others, strict=True):
        close(other.numpy(), bar.numpy(), 1e-11, 1e-14, "vjp by transposing the jvp")


# --- One execution against another ---------------------------------------------------------------


def same_bits(a: Any, b: Any, what: str) -> None:
    """Two arrays of equal shape, dtype and values (NaN equals NaN)."""
    a, b = np.asarray(a), np.asarray(b)
    assert (a.shape, a.dtype) == (b.shape, b.dtype), (
        f"{what}: {a.dtype}{a.shape}, {b.dtype}{b.shape}"
    )
    assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), f"{what}: {a} is not {b}"


def recorded(f: F, xs: Sequence[Any]) -> None:
    """Recording, not recording, `no_grad` and plain arrays give the same bits."""
    f = single(f)
    tensors = [cr.tensor(x) for x in xs]
    plain = f(*tensors)
    for x in tensors:
        if x.dtype.kind == "f":
            x.requires_grad_()
    same_bits(f(*tensors).detach(), plain.detach(), "recorded and not")
    with cr.no_grad():
        inside = f(*tensors)
    assert not inside.requires_grad
    same_bits(inside, plain, "no_grad and not recorded")
    arrays = f(*[np.asarray(x) for x in xs])
    same_bits(arrays.detach() if isinstance(arrays, cr.Tensor) else arrays, plain, "arrays")


def specs(f: F, xs: Sequence[Any]) -> None:
    """Shape and dtype of the result and of the gradients are known without values."""
    f, places = single(f), flows(xs)
    holders = [
        placeholder(np.shape(x), np.asarray(x).dtype, needs=i in places) for i, x in enumerate(xs)
    ]
    y, want = f(*holders), f(*[cr.tensor(x) for x in xs])
    assert type(y.value) is Spec, f"a placeholder gave {y!r}"
    assert (y.shape, y.dtype) == (want.shape, want.dtype), f"{y.value}: {want.dtype}{want.shape}"
    if not y.requires_grad:
        return
    y.backward(np.ones(y.shape, y.dtype))
    for i in places:
        bar = holders[i].grad
        if bar is not None:
            assert (bar.shape, bar.dtype) == (holders[i].shape, holders[i].dtype)


def dtypes(f: F, xs: Sequence[Any], dtype: type, relative: float) -> None:
    """In `dtype`, values and gradients have that dtype and are those of float64, to `relative`."""
    places = flows(xs)
    low = [np.asarray(x).astype(dtype) if i in places else x for i, x in enumerate(xs)]
    f_low, low = of_floats(f, low)
    f_high, _ = of_floats(f, xs)
    y, pull = cr.vjp(f_low, *low)
    want, pull_high = cr.vjp(f_high, *[x.astype(np.float64) for x in low])
    assert y.dtype == dtype, f"{np.dtype(dtype)} gave {y.dtype}"
    close(y.numpy().astype(np.float64), want.numpy(), relative, relative, "value")
    g = cotangent(y).astype(dtype)
    for bar, other in zip(pull(g), pull_high(g.astype(np.float64)), strict=True):
        assert bar.dtype == dtype, f"a gradient of {np.dtype(dtype)} is {bar.dtype}"
        close(bar.numpy().astype(np.float64), other.numpy(), relative, relative, "gradient")
    _, y_dot = cr.jvp(f_low, low, [cotangent(x).astype(dtype) for x in low])
    assert y_dot.dtype == dtype, f"a tangent of {np.dtype(dtype)} is {y_dot.dtype}"


def strided(x: Array) -> Array:
    """The same values in memory that is not contiguous: every second element, axes reversed."""
    if not x.ndim:
        return x
    wide = np.full([2 * n for n in x.shape[::-1]], np.nan, x.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)].transpose()
    view[...] = x
    return view


def contiguity(f: F, xs: Sequence[Any]) -> None:
    """Cotangents and arguments that are not contiguous change nothing."""
    f, xs = of_floats(f, xs)

    def gradients(args: Sequence[Array], layout: Callable[[Array], Array]) -> tuple[Any, list[Any]]:
        leaves = [variable(x).requires_grad_() for x in args]
        y = f(*leaves)
        if y.node is None:
            return y, []
        g = layout(cotangent(y))
        nodes = [x.node for x in leaves]
        got = pullback_nodes(order([y.node]), {y.node: g}, set(nodes), record=False, free=False)
        return y, [got.get(n) for n in nodes]

    y, bars = gradients(xs, np.array)
    for args, layout in ((xs, strided), ([strided(x) for x in xs], strided)):
        y2, others = gradients(args, layout)
        close(y2.detach(), y.detach(), 1e-13, 1e-15, "value")
        for bar, other in zip(bars, others, strict=True):
            assert (bar is None) == (other is None)
            if bar is not None:
                close(other, bar, 1e-13, 1e-15, "gradient")
