"""Running sums, products, extrema and recurrences: one row for each class of op.

A scan's first element is computed alone, each other one from the element before it, which is read
where it was written. Along the other axes there is nothing to wait for.

Notation: `at` the index of an element, `before` the element before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Expr
from chainrule.compile.loops.views import Index, broadcast_index
from chainrule.compile.lower.index_arrays import Elements
from chainrule.ops.reductions.scan import CumProd, CumSum, LogCumSumExp, Recurrence, RunningArg


@final
@dataclass(frozen=True, slots=True)
class Scan:
    """`first` (elements, term, at) and `step` (elements, term, at, before) give an element."""

    first: Callable[[Elements, Term, Index], Expr]
    step: Callable[[Elements, Term, Index, Expr], Expr]


def _own(e: Elements, t: Term, at: Index) -> Expr:
    return e.exprs.cast(e.element(t.args[0], at), t.dtype)


def _running(label: str) -> Scan:
    def step(e: Elements, t: Term, at: Index, before: Expr) -> Expr:
        return e.exprs.fn(label, before, _own(e, t, at))

    return Scan(_own, step)


def _summand(e: Elements, t: Term, at: Index) -> Expr:
    b = t.args[1]
    return e.exprs.cast(e.element(b, broadcast_index(at, b.shape)), t.dtype)


def _recur(e: Elements, t: Term, at: Index, before: Expr) -> Expr:
    a = t.args[0]
    factor = e.exprs.cast(e.element(a, broadcast_index(at, a.shape)), t.dtype)
    grown = e.exprs.fn("mul", factor, before)
    return e.exprs.fn("add", grown, _summand(e, t, at))


def _place(e: Elements, t: Term, at: Index) -> Expr:
    return e.exprs.index(at[_axis(t)])


def _better(e: Elements, t: Term, at: Index, before: Expr) -> Expr:
    """Where `x` is beyond the extremum so far, or the first NaN."""
    (x,), op, ex = t.args, t.op, e.exprs
    axis = _axis(t)
    held = tuple([Affine.of(before) if a == axis else i for a, i in enumerate(at)])
    new, old = e.element(x, at), e.element(x, held)
    label = "greater" if op.largest else "less"  # type: ignore[union-attr]
    better = ex.fn(label, new, old)
    if x.dtype.kind == "f":
        known = ex.fn("logical_not", ex.fn("isnan", old))
        nan = ex.fn("logical_and", ex.fn("isnan", new), known)
        better = ex.fn("logical_or", better, nan)
    return ex.fn("where", better, ex.index(at[axis]), before)


def _axis(t: Term) -> int:
    return t.op.axis % len(t.shape)  # type: ignore[union-attr]


SCANS: dict[type, Scan] = {
    CumSum: _running("add"), CumProd: _running("mul"), LogCumSumExp: _running("logaddexp"),
    Recurrence: Scan(_summand, _recur), RunningArg: Scan(_place, _better),
}  # fmt: skip
"""By class of op."""


def direction(t: Term) -> tuple[int, bool]:
    """The axis along which `t` runs, and whether it runs from the last element."""
    op: Any = t.op
    return _axis(t), isinstance(op, CumSum | Recurrence) and op.back
