"""Constants that a formula says: no memory for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chainrule.compile.graph.array_patterns import (
    Pattern,
    Ratio,
    Steps,
    Triangle,
    Uniform,
    recognized,
)
from chainrule.compile.graph.sizes import Size
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Expr, Exprs
from chainrule.compile.loops.views import ZERO, Index
from chainrule.compile.lower import op_rules


def patterns(order: Iterable[Term]) -> dict[Term, Pattern]:
    """The formulas of all elements of those constants that have one."""
    out: dict[Term, Pattern] = {}
    for t in order:
        if t.op is None and t.index is None:
            known = isinstance(t.value, Uniform | Triangle | Steps)
            found = t.value if known else recognized(t.value)
            if found is not None:
                out[t] = found
    return out


def element(e: Exprs, p: Pattern, dtype: Any, at: Index) -> Expr:
    """The element of a constant of that pattern."""
    match p:
        case Uniform():
            return _number(e, p.value, dtype)
        case Triangle():
            if not at:
                return e.lit(True, bool)
            row, col = e.index(at[-2].plus(Affine(p.k))), e.index(at[-1])
            return e.fn("less_equal", col, row, dtype=op_rules.BOOL)
        case Steps():
            place = (at[p.axis] if at else ZERO).times(p.step).plus(Affine(p.start))
            return e.cast(e.index(place), dtype)


def _number(e: Exprs, value: Any, dtype: Any) -> Expr:
    if isinstance(value, Size):
        return e.cast(e.index(Affine(value)), dtype)
    if isinstance(value, Ratio):
        scale, size = e.lit(value.scale, dtype), e.cast(e.index(Affine(value.size)), dtype)
        return e.fn("div" if value.over else "mul", scale, size, dtype=dtype)
    return e.lit(value, dtype)
