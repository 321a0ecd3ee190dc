"""Arguments that are NumPy arrays, changed in place: by a compiled function as by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.operators import SIGNS
from chainrule.errors import TraceError

FLOATS = (np.array([[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]]), np.array([0.5, 2.0, 1.25]))
INTEGERS = (np.array([[9, 6, 3], [7, 5, 1]]), np.array([2, 3, 1]))
SQUARE = (np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.5, 1.0], [2.0, 0.25]]))
BITS = {"and", "or", "xor", "lshift", "rshift"}


def outcome(f: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """What two calls return, and what they leave of the arguments."""
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    results = [np.asarray(f(*given)).copy() for _ in range(2)]
    return (*results, *given)


def in_place(name: str) -> Callable[..., Any]:
    """A function with that operator, compiled from its text."""
    names: dict[str, Any] = {}
    exec(f"def f(s, x):\n    s {SIGNS[name]} x\n    return s.sum()", names)
    return names["f"]


@pytest.mark.parametrize("name", SIGNS)
def test_an_operator_in_place_changes_the_argument(name: str) -> None:
    args = SQUARE if name == "matmul" else INTEGERS if name in BITS else FLOATS
    f = in_place(name)
    for expected, found in zip(outcome(f, *args), outcome(cr.jit(f), *args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert found.dtype == expected.dtype


def part(s: Any, x: Any) -> Any:
    s[0] += x
    s[1, 1:] *= 2
    return s.sum()


def copied_first(s: Any, x: Any) -> Any:
    row = s[0] * 1.0
    s += 1.0
    return (row * x).sum()


def chosen(s: Any, x: Any) -> Any:
    rows = s[[0]]
    rows += x
    return s.sum() + rows.sum()


def another_name(s: Any, x: Any) -> Any:
    t = s
    t -= x
    return s.sum()


def inside(d: Any, x: Any) -> Any:
    d["s"] += x
    return d["s"].sum()


@pytest.mark.parametrize("f", [part, copied_first, chosen, another_name])
def test_what_numpy_does_to_an_argument_is_done(f: Any) -> None:
    for expected, found in zip(outcome(f, *FLOATS), outcome(cr.jit(f), *FLOATS), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_arrays_in_containers_are_changed_as_well() -> None:
    given = {"s": FLOATS[0].copy()}
    cr.jit(inside)(given, FLOATS[1])
    np.testing.assert_array_equal(given["s"], FLOATS[0] + FLOATS[1])


def view_added(s: Any, x: Any) -> Any:
    row = s[0]
    row += x
    return s.sum()


def view_assigned(s: Any, x: Any) -> Any:
    row = s.T
    row[0] = x[:2]
    return s.sum()


def view_read(s: Any, x: Any) -> Any:
    row = s.reshape(-1)
    s += x
    return row.sum()


def view_returned(s: Any, x: Any) -> Any:
    row = s[0]
    s *= 2
    return row


@pytest.mark.parametrize("f", [view_added, view_assigned, view_read, view_returned])
def test_what_would_go_through_a_view_is_refused(f: Any) -> None:
    kept = FLOATS[0].copy()
    with pytest.raises(TraceError, match=r"a view of an array.*(copy|own)"):
        cr.jit(f)(kept, FLOATS[1])
    np.testing.assert_array_equal(kept, FLOATS[0])


def test_tensors_are_never_changed_by_an_operator() -> None:
    s = cr.tensor(FLOATS[0])
    for f in (in_place("add"), cr.jit(in_place("add"))):
        f(s, FLOATS[1])
        np.testing.assert_array_equal(s.numpy(), FLOATS[0])


# --- derivatives outside of a call that changes what it read --------------------------------------


class Doubling:
    """Its state doubles at each call, after it has been read."""

    def __init__(self) -> None:
        self.w = cr.tensor(np.array([0.3, -0.7, 1.1]), requires_grad=True)
        self.s = cr.tensor(np.array([1.0, 2.0, 3.0]))

    def __call__(self, x: Any) -> Any:
        y = (self.w * self.s * self.s * x).sum()
        self.s.data = self.s * 2.0
        return y


class Halving(Doubling):
    """It changes the parameter that its result is differentiated by."""

    def __call__(self, x: Any) -> Any:
        y = (self.w * self.w * x).sum()
        with cr.no_grad():
            self.w.data = self.w * 0.5
        return y


@pytest.mark.parametrize("made", [Doubling, Halving])
def test_a_derivative_is_that_at_the_values_of_the_call(made: Any) -> None:
    eager, compiled = made(), made()
    step, x = cr.jit(lambda x: compiled(x)), np.array([1.0, 2.0, 3.0])
    for _ in range(3):
        eager.w.grad = compiled.w.grad = None
        eager(x).backward()
        step(x).backward()
        np.testing.assert_allclose(compiled.w.grad.numpy(), eager.w.grad.numpy(), rtol=1e-12)
        np.testing.assert_array_equal(compiled.s.numpy(), eager.s.numpy())
        np.testing.assert_array_equal(compiled.w.data.numpy(), eager.w.data.numpy())


def test_a_derivative_beside_an_argument_that_changes() -> None:
    def f(x: Any, s: Any) -> Any:
        y = (x * s * s).sum()
        s += 1.0
        return y

    found = []
    for g in (f, cr.jit(f)):
        s, x = np.array([1.0, 2.0, 3.0]), cr.tensor(FLOATS[1], requires_grad=True)
        for _ in range(2):
            g(x, s).backward()
        assert x.grad is not None
        found.append((x.grad.numpy().tolist(), s.tolist()))
    assert found[0] == found[1]
