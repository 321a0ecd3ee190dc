"""Sorting: the indices that put the elements of a row in order, equal ones as they stood.

An element becomes a key: an unsigned number of the same order, NaN the largest. So one routine
sorts every dtype, and inverted bits sort in descending order.

* A short row: each index goes to the place that is the number of elements before it, counted in
  lanes: n^2 comparisons, but no jumps.
* A long one: by each digit of the keys, the lowest first (Knuth, The Art of Computer Programming 3,
  section 5.2.5). How often each digit occurs tells where its first element goes; then one element
  after the other is put in its place. That keeps the order of equal digits.

Notation: `x` what is sorted, along rows of `n` elements; `i` a place in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Exprs
from chainrule.compile.loops.statements import For, Into, Let, Stmt, Store
from chainrule.compile.loops.views import Index
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.index_arrays import I64
from chainrule.compile.lower.plan import Plan

SHORT = 96
"""Rows up to which comparing every element with every other one is quicker."""
_BITS = 8
"""Of a digit. Where each digit's elements go is that many lines of memory, which a core holds."""

Along = Callable[[Affine], Index]
"""The index of an element, by its place in the row."""


def order(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """The indices that sort along the axis of the op."""
    (x,), op = t.args, t.op
    axis = op.axis % len(t.shape)  # type: ignore[union-attr]
    n = t.shape[axis]
    axes, at = builder.counters([1 if a == axis else m for a, m in enumerate(t.shape)])

    def along(i: Affine) -> Index:
        return tuple([i if a == axis else j for a, j in enumerate(at)])

    def key(i: Affine) -> Expr:
        made = _key(builder.exprs, builder.element(x, along(i)))
        return builder.exprs.fn("bitwise_invert", made) if op.descending else made  # type: ignore[union-attr]

    short = isinstance(n, int) and n <= SHORT
    body = (_by_counting if short else _by_digits)(builder, t, n, along, key)
    return [builder.nest(axes, body, "serial", chained=axes)]


def _key(e: Exprs, x: Expr) -> Expr:
    """The unsigned number that stands for `x`."""
    dtype = np.dtype(f"u{x.dtype.itemsize}")
    if x.dtype.kind in "bu":
        return e.cast(x, dtype)
    top = e.lit(1 << (8 * dtype.itemsize - 1), dtype)
    if x.dtype.kind == "i":
        return e.fn("bitwise_xor", e.cast(x, dtype), top)
    plain = e.fn("bits", e.fn("add", x, e.lit(0, x.dtype)))  # no -0
    below = e.fn("greater_equal", plain, top)
    turned = e.fn("bitwise_invert", plain)
    key = e.fn("where", below, turned, e.fn("bitwise_or", plain, top))
    last = e.lit(np.iinfo(dtype).max, dtype)
    return e.fn("where", e.fn("isnan", x), last, key)


# --- a short row ---------------------------------------------------------------------------------


def _by_counting(
    builder: Builder, t: Term, n: Extent, along: Along, key: Callable[[Affine], Expr]
) -> list[Stmt]:
    """A short row: the place of an element is the number of those that come before it."""
    e = builder.exprs
    keys, made = _keys(builder, n, key)
    i, j = builder.var(n), builder.var(n)
    whole = np.dtype(f"i{max(keys.dtype.itemsize, 2)}")
    mine, place = builder.local(keys.dtype), builder.local(whole)
    other, own = e.load(keys, Affine.of(j)), e.local(mine)
    first = e.fn("less", e.index(Affine.of(j)), e.index(Affine.of(i)))
    before = e.fn("less", other, own)
    equal = e.fn("logical_and", first, e.fn("equal", other, own))
    counts = e.cast(e.fn("logical_or", before, equal), whole)
    body = [
        Let(mine, e.load(keys, Affine.of(i))),
        Let(place, e.lit(0, whole)),
        For(j, (Into(place, "add", counts),)),
        builder.store(t, along(Affine.of(e.cast(e.local(place), I64))), e.index(Affine.of(i))),
    ]
    return [made, For(i, tuple(body), "lanes")]


def _keys(builder: Builder, n: Extent, key: Callable[[Affine], Expr]) -> tuple[Buffer, Stmt]:
    """Memory for the keys of a row, and the loop that computes them."""
    i = builder.var(n)
    made = key(Affine.of(i))
    keys = builder.memory(made.dtype, (n,), "keys")
    return keys, For(i, (Store(keys, Affine.of(i), made),), "lanes")


# --- a long row ----------------------------------------------------------------------------------


def _by_digits(
    builder: Builder, t: Term, n: Extent, along: Along, key: Callable[[Affine], Expr]
) -> list[Stmt]:
    """A long row: a stable pass over the keys for each of their digits, the lowest first."""
    e = builder.exprs
    keys, made = _keys(builder, n, key)
    passes = 8 * keys.dtype.itemsize // _BITS
    number = np.dtype(np.int32) if isinstance(n, int) and n < 2**31 else I64
    counts = builder.memory(number, (1 << _BITS,), "starts")
    spare = [builder.memory(keys.dtype, (n,), "keys") for _ in range(passes > 1)]
    places = [builder.memory(number, (n,), "places") for _ in range(min(passes - 1, 2))]
    out: list[Stmt] = [made]
    for p in range(passes):
        i, k, to = builder.var(n), builder.local(keys.dtype), builder.local(number)
        here, goes = Affine.of(i), Affine.of(e.local(to))
        digit = Affine.of(_digit(e, e.local(k), p))
        out += _starts(builder, counts, keys, n, p)
        body: list[Stmt] = [Let(k, e.load(keys, here)), Let(to, e.load(counts, digit))]
        place = e.cast(e.index(here), number) if p == 0 else e.load(places[(p - 1) % 2], here)
        if p == passes - 1:
            body.append(builder.store(t, along(goes), place))
        else:
            body += [Store(places[p % 2], goes, place), Store(spare[0], goes, e.local(k))]
            keys, spare = spare[0], [keys]
        following = e.fn("add", e.local(to), e.lit(1, number))
        out.append(For(i, (*body, Store(counts, digit, following))))
    return out


def _starts(builder: Builder, counts: Buffer, keys: Buffer, n: Extent, p: int) -> Sequence[Stmt]:
    """`counts` becomes, for each digit number `p`, how many elements have a smaller one."""
    e, number = builder.exprs, counts.dtype
    i, c, d = builder.var(n), builder.var(counts.size), builder.var(counts.size)
    total, here = builder.local(number), builder.local(number)
    none, one = e.lit(0, number), e.lit(1, number)
    digit = _digit(e, e.load(keys, Affine.of(i)), p)
    added: list[Stmt] = [
        Let(here, e.load(counts, Affine.of(d))),
        Store(counts, Affine.of(d), e.local(total)),
        Into(total, "add", e.local(here)),
    ]
    return [
        For(c, (Store(counts, Affine.of(c), none),), "lanes"),
        For(i, (Store(counts, Affine.of(digit), one, add=True),)),
        Let(total, none),
        For(d, tuple(added)),
    ]


def _digit(e: Exprs, key: Expr, p: int) -> Expr:
    dtype = key.dtype
    moved = e.fn("bitwise_right_shift", key, e.lit(p * _BITS, dtype)) if p else key
    return e.cast(e.fn("bitwise_and", moved, e.lit((1 << _BITS) - 1, dtype)), I64)
