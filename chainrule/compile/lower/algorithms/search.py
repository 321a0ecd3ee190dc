"""Searching a sorted array: as many steps for each element as the array's size has binary digits.

An index is found digit by digit in base 2, the highest first. A digit is set if the array is long
enough and the element before that index sorts before the one searched. All elements take the same
steps, so that they are lanes of one loop.

Notation: `x` the sorted array, of `n` elements; `v` the element that is searched.
"""

from __future__ import annotations

import numpy as np

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Expr, Exprs
from chainrule.compile.loops.statements import For, Into, Let, Stmt
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.index_arrays import I64
from chainrule.compile.lower.plan import Plan

_MOST = 62
"""So many binary digits a size has at most."""


def search(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """Where each element of the second array would stand in the first."""
    x, wanted = t.args
    (n,), e, op = x.shape, builder.exprs, t.op
    dtype = np.result_type(x.dtype, wanted.dtype)
    first, digits = _digits(builder, n)
    axes, at = builder.counters(t.shape)
    place, step = builder.local(I64), builder.var(_MOST if first else digits.const)
    high = digits - 1 - step
    digit = e.fn("bitwise_left_shift", e.lit(1, I64), e.index(high))
    end = e.fn("add", e.local(place), digit)
    there = e.fn("less_equal", end, e.index(Affine(n)))
    last = e.cast(builder.element(x, (Affine.of(end) - 1,), there), dtype)
    v = e.cast(builder.element(wanted, at), dtype)
    before = _before(e, last, v) if op.side == "left" else _not(e, _before(e, v, last))  # type: ignore[union-attr]
    counts = e.fn("logical_and", there, before)
    more = Into(place, "add", e.fn("where", counts, digit, e.lit(0, I64)))
    loop = For(step, (more,), upto=digits if first else None)
    body = [Let(place, e.lit(0, I64)), loop, builder.store(t, at, e.local(place))]
    return [[*first, *builder.nest(axes, body)]]


def _digits(builder: Builder, n: Extent) -> tuple[list[Stmt], Affine]:
    """How many binary digits `n` has; where it is not known yet, statements that count them."""
    if isinstance(n, int):
        return [], Affine(n.bit_length())
    e, count, at = builder.exprs, builder.local(I64), builder.var(_MOST)
    rest = e.fn("bitwise_right_shift", e.index(Affine(n)), e.index(Affine.of(at)))
    some = e.cast(e.fn("greater", rest, e.lit(0, I64)), I64)
    known = e.fn("minimum", e.local(count), e.lit(_MOST, I64))
    return [Let(count, e.lit(0, I64)), For(at, (Into(count, "add", some),))], Affine.of(known)


def _before(e: Exprs, a: Expr, b: Expr) -> Expr:
    """Whether `a` stands before `b` in a sorted array, in which NaNs are last."""
    less = e.fn("less", a, b)
    if a.dtype.kind != "f":
        return less
    nan = e.fn("logical_and", _not(e, e.fn("isnan", a)), e.fn("isnan", b))
    return e.fn("logical_or", less, nan)


def _not(e: Exprs, x: Expr) -> Expr:
    return e.fn("logical_not", x)
