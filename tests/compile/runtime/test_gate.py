"""Machine code that looks at a call's arguments says what Python would say of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.runtime.call.steady_call import Steady

RNG = np.random.default_rng(0)


def of(*shape: int, dtype: Any = np.float32) -> Any:
    """A tensor of random numbers."""
    return cr.tensor(RNG.normal(size=shape), dtype)


def steady_of(f: Any) -> Any:
    """The short way of the latest call, its insides included."""
    found = f._latest
    assert isinstance(found, Steady) and vars(found)["_gate"] is not None
    return found


@pytest.fixture
def step() -> Any:
    """A function of a tensor, another and an array, compiled and called, with state."""
    weight = cr.tensor(np.ones(3, np.float32), requires_grad=True)

    @cr.jit(dynamic={"x": ("B", None), "y": ("B", "T")})
    def f(x: Any, y: Any, z: Any) -> Any:
        loss = (weight * x).sum() * y.sum() + z.sum()
        weight.grad = None
        loss.backward()
        weight.data = weight.data * 0.9 + 0.1 * cr.asarray(weight.grad)
        return loss

    for n in (5, 6, 5, 5):
        f(of(n, 3), of(n, 4), np.zeros(2))
    return f


ARGUMENTS: list[tuple[str, Callable[[], tuple[Any, ...]], bool]] = [
    ("as before", lambda: (of(5, 3), of(5, 4), np.zeros(2)), True),
    ("another batch", lambda: (of(6, 3), of(6, 4), np.ones(2)), True),
    ("two batches", lambda: (of(6, 3), of(5, 4), np.zeros(2)), False),
    ("another size", lambda: (of(5, 4), of(5, 4), np.zeros(2)), False),
    ("fewer axes", lambda: (of(5), of(5, 4), np.zeros(2)), False),
    ("another dtype", lambda: (of(5, 3, dtype=np.float64), of(5, 4), np.zeros(2)), False),
    ("another class", lambda: (of(5, 3).numpy(), of(5, 4), np.zeros(2)), False),
    ("a tensor for an array", lambda: (of(5, 3), of(5, 4), cr.tensor(np.zeros(2))), False),
    ("not contiguous", lambda: (of(5, 3), of(5, 4), np.zeros(4)[::2]), False),
    ("transposed", lambda: (cr.asarray(of(3, 5).numpy()).T, of(5, 4), np.zeros(2)), False),
    ("a number", lambda: (of(5, 3), of(5, 4), 0.0), False),
    ("a gradient", lambda: (cr.tensor(np.ones((5, 3)), cr.float32, requires_grad=True),
                            of(5, 4), np.zeros(2)), False),
    ("too few", lambda: (of(5, 3), of(5, 4)), False),
    ("none", lambda: (), False),
]  # fmt: skip


@pytest.mark.parametrize(("args", "fit"), [a[1:] for a in ARGUMENTS], ids=[a[0] for a in ARGUMENTS])
def test_what_fits(step: Any, args: Callable[[], tuple[Any, ...]], fit: bool):
    found, given = steady_of(step), args()
    assert (found._gate.again(given) >= 0) is fit
    assert (found._wanted.arrays(given) is not None) is fit


def test_sizes_are_told_apart(step: Any):
    gate = steady_of(step)._gate
    shapes = [(b, t) for b in (1, 2, 3, 1000) for t in (0, 1, 2, 3)]
    keys = [gate.again((of(b, 3), of(b, t), np.zeros(2))) for b, t in shapes]
    assert len(set(keys)) == len(keys) and min(keys) >= 0
    huge = np.broadcast_to(np.float32(0), (1 << 20, 0))
    assert gate.again((cr.tensor(np.zeros((5, 3)), cr.float32), cr.tensor(huge), np.zeros(2))) == -1


@pytest.mark.parametrize("change", ["value", "grad", "held", "held grad"])
def test_state_that_is_not_as_before(step: Any, change: str):
    found = steady_of(step)
    args = of(5, 3), of(5, 4), np.zeros(2)
    assert found._gate.again(args) >= 0
    weight = found.seen._tensors[0]
    kept: Any = None
    if change == "value":
        weight.data = np.zeros(3, np.float32)
    elif change == "grad":
        weight.grad = None
    elif change == "held":
        kept = weight.value
    else:
        kept = weight.grad
    assert found._gate.again(args) == -1
    del kept


def test_calls_by_the_gate_are_those_of_the_function():
    """Values, sizes that come and go, an index that is outside, and further calls after it."""
    table = cr.tensor(RNG.normal(size=(7, 3)))

    def rows(at: Any, by: Any) -> Any:
        return (cr.take(table, at, axis=0) * by).sum(axis=1)

    f = cr.jit(rows, dynamic={"at": ("T",)})
    for n in (4, 6, 4, 4, 6, 5, 5, 4, 1, 1, 4, 5, 6, 6):
        at, by = cr.tensor(RNG.integers(0, 7, n)), np.float64(n) * np.ones(3)
        np.testing.assert_allclose(f(at, by).numpy(), rows(at, by).numpy(), rtol=1e-15)
        with pytest.raises(IndexError, match=r"outside 0\.\.6"):
            f(cr.tensor(np.full(n, 7)), by)
    assert f.traces == 1
    assert len(steady_of(f)._whole.keys) >= 3


@pytest.mark.parametrize("f", [cr.linalg.cholesky, lambda x: cr.special.polygamma(7, x + 3)])
def test_programs_with_eager_ops_are_steady_too(f: Callable[[Any], Any]):
    """One that runs where LAPACK fails, and one that always runs; with state that changes."""
    state = cr.tensor(np.eye(3))

    @cr.jit
    def step(x: Any, y: Any) -> Any:
        state.data = f(state + x)
        return cr.exp(y) * state.sum()

    want = np.eye(3)
    for i in range(6):
        x, y = 0.5 * np.eye(3) * i, np.full(2, 0.1 * i)
        got = step(cr.asarray(x), cr.asarray(y))
        want = f(want + x)
        np.testing.assert_allclose(got.numpy(), np.exp(y) * want.sum(), rtol=1e-14)
        np.testing.assert_allclose(state.numpy(), want, rtol=1e-14)
    assert steady_of(step).short is None


def test_what_an_eager_op_raises_is_raised_and_the_next_call_is_as_before():
    g = cr.jit(cr.linalg.cholesky)
    fine, bad = cr.asarray(4 * np.eye(2)), cr.asarray(-np.eye(2))
    for x in (fine, fine, fine, bad, bad, fine):
        if x is fine:
            np.testing.assert_array_equal(g(x).numpy(), 2 * np.eye(2))
            continue
        assert steady_of(g).short is None
        with pytest.raises(cr.ChainruleError, match="smallest eigenvalue"):
            g(x)
