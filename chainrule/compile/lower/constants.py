"""Constants that a formula says: no memory for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from chainrule.compile.loops.expressions import Affine, Expr
from chainrule.compile.loops.views import ZERO, Index
from chainrule.compile.lower import op_rules

if TYPE_CHECKING:
    from chainrule.compile.lower.scheduler import Scheduler


def element(s: Scheduler, t: Term, at: Index) -> Expr | None:
    """The element of a constant that a pattern gives, without memory."""
    if t.op is not None or t.index is not None:
        return None
    p = pattern(s, t)
    e = s.exprs
    match p:
        case Uniform():
            return _number(s, p.value, t.dtype)
        case Triangle():
            if not at:
                return e.lit(True, bool)
            row, col = e.index(at[-2].plus(Affine(p.k))), e.index(at[-1])
            return e.fn("less_equal", col, row, dtype=op_rules.BOOL)
        case Steps():
            place = (at[p.axis] if at else ZERO).times(p.step).plus(Affine(p.start))
            return e.cast(e.index(place), t.dtype)
        case _:
            return None


def pattern(s: Scheduler, t: Term) -> Pattern | None:
    """The formula of all elements of the constant `t`, if there is one."""
    if t.op is not None or t.index is not None:
        return None
    if t not in s.patterns:
        known = isinstance(t.value, Uniform | Triangle | Steps)
        s.patterns[t] = t.value if known else recognized(t.value)
    return s.patterns[t]


def _number(s: Scheduler, value: Any, dtype: Any) -> Expr:
    e = s.exprs
    if isinstance(value, Size):
        return e.cast(e.index(Affine(value)), dtype)
    if isinstance(value, Ratio):
        scale, size = e.lit(value.scale, dtype), e.cast(e.index(Affine(value.size)), dtype)
        return e.fn("div" if value.over else "mul", scale, size, dtype=dtype)
    return e.lit(value, dtype)
