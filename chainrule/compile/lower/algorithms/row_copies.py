"""Copies of rows that begin where tables say: a loop over lanes for each row.

Notation: as in `chainrule.ops.windows.row_copies`.
"""

from __future__ import annotations

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine
from chainrule.compile.loops.statements import Stmt
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.plan import Plan


def padded_rows(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """Each row with what is before and after it, which is 0."""
    x, first, low, high, _ = t.args
    source = builder.contiguous(x)
    e, (axes, at) = builder.exprs, builder.counters(t.shape)
    channel, *row, j = at
    here = e.index(j)
    starts = e.fn("greater_equal", here, e.cast(builder.element(low, tuple(row)), here.dtype))
    ends = e.fn("less", here, e.cast(builder.element(high, tuple(row)), here.dtype))
    place = Affine.of(builder.element(first, tuple(row))) + j * t.op.step
    value = e.load(source, channel * x.shape[2] + place, e.both(starts, ends))
    return [builder.nest(axes, [builder.store(t, at, value)])]


def window_rows(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """Each row of windows."""
    y, start, _ = t.args
    axes, at = builder.counters(t.shape)
    n, group, channel, row, j = at
    place = j + builder.element(start, (n, row))
    return [builder.nest(axes, [builder.store(t, at, builder.element(y, (group, channel, place)))])]
