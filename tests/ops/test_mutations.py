"""Planted mistakes must be caught: every partial times 1.001, wrong rules, wrong executions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.graph import apply
from chainrule.engine.op import Need, Op, Spec
from chainrule.ops.contraction import MatMul
from chainrule.ops.families import Elementwise, Linear, Partial, rows
from chainrule.ops.reductions.norms import LogSumExp
from chainrule.ops.reductions.reduction import Extremum, Sum, spread
from chainrule.ops.shapes.shaping import Permute
from chainrule.ops.shapes.slices import Slice, Unslice
from tests.ops import check, samples_elementwise
from tests.ops.sample import apart

PARTIALS = [
    (n, i)
    for n in samples_elementwise.DOMAINS
    for i in range(len(rows[n].partials))
    if rows[n].partials[i:] == rows[n].partials[-1:] or n not in samples_elementwise.BY_LAST
]


def wrong_by_a_thousandth(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The partial times 1.001; 0.001 where it is 0 everywhere."""

    @wraps(formula)  # the engine reads the parameters' names
    def wrong(*args: Any) -> Any:
        d = formula(*args)
        return 0.001 if isinstance(d, int) and d == 0 else d * 1.001

    return wrong


def mutated(row: Elementwise, place: int) -> Elementwise:
    """The row with one wrong partial, and a vjp that uses it."""
    partials = list(row.partials)
    old = partials[place]
    partials[place] = Partial(wrong_by_a_thousandth(old.formula), old.singular)
    return Elementwise(row.label, row.fn, tuple(partials), row.scalar, row.forward)


def caught(checker: Callable[..., Any], f: Callable[..., Any], xs: Sequence[Any]) -> bool:
    try:
        checker(f, xs)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(("name", "place"), PARTIALS, ids=lambda v: str(v))
def test_each_partial_times_1_001_is_caught(name: str, place: int):
    sample = samples_elementwise.of_row(name)[0]
    check.differences(sample.f, sample.args)
    wrong = mutated(rows[name], place)
    assert wrong is not rows[name]
    assert caught(check.differences, samples_elementwise.of_row(name, wrong)[0].f, sample.args)


# --- Wrong rules in other ops: state the right op, and one wrong statement -----------------------


@dataclass(frozen=True, eq=False)
class ScaledSum(Sum):
    """Forgets that it is the same `g` for every element: divides it."""

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        return (spread(g, self.axes, xs[0].shape) * 0.999,)


@dataclass(frozen=True, eq=False)
class ForwardPermute(Permute):
    """Goes back by the permutation itself: right only where that is its own inverse."""

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        return (apply(Permute(self.axes), g).reshape(xs[0].shape),)


@dataclass(frozen=True, eq=False)
class ShiftedSlice(Slice):
    """Puts the cotangent one place too early."""

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        start, stop, step = self.key[0]
        return (apply(Unslice(((start - 1, stop - 1, step),), xs[0].shape), g),)


@dataclass(frozen=True, eq=False)
class NotTransposed(MatMul):
    """The Jacobian where its transpose belongs; the matrix is square, so the shapes agree."""

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        return apply(MatMul(), g, xs[1]), super().vjp(need, g, y, xs)[1]


@dataclass(frozen=True, eq=False)
class WinnerTakesAll(Extremum):
    """Gives the whole cotangent to every element, not only to the extremum."""

    def share(self, y: Any, x: Any) -> Any:
        return super().share(y, x) * 1 + 0.001


@dataclass(frozen=True, eq=False)
class StaleSoftmax(LogSumExp):
    """Right at first order, but what it multiplies with is cut out of the graph."""

    def share(self, y: Any, x: Any) -> Any:
        return np.exp(_values(x) - _values(spread(y, self.axes, x.shape)))


def _values(x: Any) -> Any:
    return x.value if isinstance(x, cr.Tensor) else x


@dataclass(frozen=True, eq=False)
class WrongForward(Linear):
    """x -> 3x, of whose statements `wrong` names the one that is not right."""

    wrong: str

    @property
    def name(self) -> str:
        return "triple"

    def eval(self, *xs: Any) -> Any:
        return xs[0] * 3

    def spec(self, *xs: Any) -> Spec:
        shape = xs[0].shape
        return Spec(shape[::-1] if self.wrong == "shape" else shape, np.dtype(np.float64))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        if self.wrong == "layout" and not (isinstance(g, cr.Tensor) or g.flags.c_contiguous):
            return (np.array(g).T.reshape(-1)[: g.size].reshape(g.shape) * 3,)
        if self.wrong == "dtype":
            return (g * 3,)
        return (g * (2 if self.wrong == "vjp" else 3),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        return ts[0] * (2 if self.wrong == "jvp" else 3)


SQUARE, WIDE, LONG = apart(3, 3), apart(2, 3, 4), apart(7)

# fmt: off
PLANTED: list[tuple[Callable[..., Any], Op, tuple[Any, ...]]] = [
    (check.differences, ScaledSum((1,), False), (WIDE,)),
    (check.adjoint, ScaledSum((1,), False), (WIDE,)),
    (check.transposed, ScaledSum((1,), False), (WIDE,)),
    (check.differences, ForwardPermute((2, 0, 1)), (apart(3, 3, 3),)),
    (check.adjoint, ForwardPermute((2, 0, 1)), (apart(3, 3, 3),)),
    (check.differences, ShiftedSlice(((2, 5, None),)), (LONG,)),
    (check.adjoint, ShiftedSlice(((2, 5, None),)), (LONG,)),
    (check.differences, NotTransposed(), (apart(2, 3), SQUARE)),
    (check.adjoint, NotTransposed(), (apart(2, 3), SQUARE)),
    (check.differences, WinnerTakesAll(True, (1,), False), (WIDE,)),
    (check.second_order, StaleSoftmax((1,), False), (WIDE,)),
    (check.differences, WrongForward("vjp"), (WIDE,)),
    (check.adjoint, WrongForward("jvp"), (WIDE,)),
    (check.transposed, WrongForward("jvp"), (WIDE,)),
    (check.specs, WrongForward("shape"), (apart(2, 3),)),
    (check.contiguity, WrongForward("layout"), (apart(2, 3),)),
]
# fmt: on


@pytest.mark.parametrize(
    ("checker", "op", "xs"), PLANTED, ids=lambda v: getattr(v, "__name__", type(v).__name__)
)
def test_wrong_rule_is_caught(checker: Callable[..., Any], op: Op, xs: tuple[Any, ...]):
    assert caught(checker, op, xs)


def test_the_same_ops_without_the_mistake_pass():
    for checker in (
        check.differences,
        check.adjoint,
        check.transposed,
        check.contiguity,
        check.specs,
    ):
        checker(WrongForward("nothing"), (apart(2, 3),))


def test_first_order_is_not_enough():
    check.differences(StaleSoftmax((1,), False), (WIDE,))
    assert caught(check.second_order, StaleSoftmax((1,), False), (WIDE,))


# --- Wrong executions -----------------------------------------------------------------------------


def test_another_value_when_recorded_is_caught():
    assert caught(check.recorded, lambda x: x * (2 if x.requires_grad else 3), (WIDE,))


def test_another_value_of_arrays_is_caught():
    assert caught(check.recorded, lambda x: x + isinstance(x, np.ndarray), (WIDE,))


def test_a_dtype_that_is_not_kept_is_caught():
    def widened(f: Callable[..., Any], xs: Sequence[Any]) -> None:
        check.dtypes(f, xs, np.float32, 1e-5)

    assert caught(widened, lambda x: x * np.float64(1.5), (WIDE,))
    assert caught(widened, lambda x: x + 1e-4 * (x.dtype == np.float32), (WIDE,))
    widened(lambda x: x * 1.5, (WIDE,))


def test_close_is_relative_and_sees_shapes_and_nan():
    def same(got: Any, want: Any) -> bool:
        try:
            check.close(got, want, 1e-6)
        except AssertionError:
            return False
        return True

    assert same([1e-9, 2e-9], [1e-9, 2e-9]) and not same([1e-9, 2e-9], [1e-9, 2.00001e-9])
    assert not same([1.0], 1.0) and not same([np.nan], [1.0]) and not same([np.inf, 1], [1, 1])
