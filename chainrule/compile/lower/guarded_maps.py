"""Maps whose arguments have an element at some places only: elsewhere their element is a number.

Notation: `at` the index of an element.
"""

from __future__ import annotations

from typing import Any

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Expr, Exprs
from chainrule.compile.loops.views import ZERO, Index, bounds, expand_key
from chainrule.compile.lower.index_arrays import I64, Elements
from chainrule.ops.windows.windows import Windows


def inside(e: Exprs, i: Affine, n: Extent, test: Expr | None = None) -> Expr:
    """Whether 0 <= i < n, and `test`."""
    low = e.fn("less_equal", e.lit(0, I64), e.index(i))
    high = e.fn("less", e.index(i), e.index(Affine(n)))
    return e.both(test, e.fn("logical_and", low, high))


def exact_quotient(e: Exprs, i: Affine, step: int, test: Expr | None) -> tuple[Affine, Expr]:
    """i / step, and whether that is a whole number, and `test`."""
    by = e.lit(step, I64)
    whole = e.fn("floor_divide", e.index(i), by)
    rest = e.fn("remainder", e.index(i), by)
    return Affine.of(whole), e.both(test, e.fn("equal", rest, e.lit(0, I64)))


def unslice(e: Elements, t: Term, at: Index) -> Expr:
    """The input's element where there is one, else 0. A step other than 1 takes a division."""
    (x,) = t.args
    op: Any = t.op
    test: Expr | None = None
    out: list[Affine] = []
    ex = e.exprs
    axis = 0
    for k in expand_key(op.key, len(t.shape)):
        if k is None:
            out.append(ZERO)
            continue
        i, n = at[axis], t.shape[axis]
        axis += 1
        if not isinstance(k, tuple):
            here = k + n if k < 0 else k
            test = ex.both(test, ex.fn("equal", ex.index(i), ex.index(Affine(here))))
            continue
        start, step = bounds(k, n)
        moved = i - start
        size = x.shape[len(out)]
        if step != 1:
            moved, test = exact_quotient(ex, moved, step, test)
        if step != 1 or start != 0 or size != n:
            test = inside(ex, moved, size, test)
        out.append(moved)
    return e.element(x, tuple(out), test)


def diagonally(e: Elements, t: Term, at: Index) -> Expr:
    """The element of the diagonal, 0 elsewhere."""
    (x,), ex = t.args, e.exprs
    op: Any = t.op
    *lead, row, col = at
    k: int = op.offset
    on = ex.fn("equal", ex.index(col), ex.index(row + k))
    return e.element(x, (*lead, row + min(0, k)), on)


def window_element(e: Elements, t: Term, at: Index) -> Expr:
    """What kernel place k of window p sees: p stride + k dilation - padding."""
    (x,), ex = t.args, e.exprs
    op: Any = t.op
    w: Windows = op.windows
    lead = len(x.shape) - w.ndim
    test: Expr | None = None
    out = list(at[:lead])
    for a, n in enumerate(w.size):
        k, p = at[lead + a], at[lead + w.ndim + a]
        before, after = w.padding[a]
        i = p * w.stride[a] + k * w.dilation[a] - before
        if before or after:
            test = inside(ex, i, n, test)
        out.append(i)
    value = e.element(x, tuple(out), test)
    if test is None or not op.fill:
        return value
    return ex.fn("where", test, value, ex.lit(op.fill, t.dtype))


def spaced_element(e: Elements, t: Term, at: Index) -> Expr:
    """What the window at (i + padding - k dilation) / stride has, if that is one."""
    (x,), ex = t.args, e.exprs
    op: Any = t.op
    w: Windows = op.windows
    lead = len(x.shape) - 2 * w.ndim
    test: Expr | None = None
    out = list(at[: lead + w.ndim])
    for a, n in enumerate(w.out):
        k, i = at[lead + a], at[lead + w.ndim + a]
        p = i + w.padding[a][0] + k * -w.dilation[a]
        if w.stride[a] != 1:
            p, test = exact_quotient(ex, p, w.stride[a], test)
        test = inside(ex, p, n, test)
        out.append(p)
    return e.element(x, tuple(out), test)
