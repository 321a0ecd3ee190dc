"""Large matrix products in panels: copies of some columns of the right matrix at a time.

A row of a wide matrix is far from the next one, on another page of memory. Those of a panel follow
each other, stay in a core's own cache, and are read again for each tile of rows. Copying also turns
what lies across. A sum of many terms is a sum of blocks of terms. These are added up in memory that
stays near, before anything is done with the result.

    for t < 4:                                          iterations, which cores can share
      for c < 3:
        for k < 768:
          for j < 64 lanes: panel[49152*t + 64*k + j] = right(k, 192*t + 64*c + j)
        product i < 256, j < 64, k < 768: acc += left(i, k) * panel[49152*t + 64*k + j]
          ...

Notation: m n k as in (m, k) @ (k, n); P columns of a panel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from chainrule.compile.graph.sizes import typical
from chainrule.compile.loops.expressions import Affine, Local, Var
from chainrule.compile.loops.statements import For, Let, Prefetch, Product, Stmt, Store
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.matmul_choice import panel_width
from chainrule.compile.lower.packing import pack_a
from chainrule.compile.lower.packing.copies import (
    Memory,
    copy_block,
    epilogue,
    loop,
    memory,
    soon,
    static_size,
    times,
)
from chainrule.compile.lower.packing.pack_a import Rows

DEEP = 1024
"""Terms of a block of a sum, at most: so long a panel stays in the second cache, with the next."""
FAR = 1 << 24
"""Bytes of a left matrix from which on it does not stay in any cache."""
TURNS = 8
"""Of so many iterations, about, each has memory of its own, so that cores can share them."""


def split_into_panels(builder: Builder, p: Product) -> list[Stmt]:
    """`p`, which need not have right's columns side by side, in panels."""
    n, width = static_size(p.j.extent), panel_width(p.acc.dtype.itemsize, builder.target)
    count = n // width
    each, left = divmod(count, shares := _share_count(count, p))
    rows = pack_a.rows(builder, p, count)
    out = _Columns(builder, p, rows, 0, shares, each, width).nest()
    if left:
        out += _Columns(builder, p, rows, shares * each * width, 1, left, width).nest()
    if n % width:
        out += _Columns(builder, p, rows, count * width, 1, 1, n % width).nest()
    return out


@final
@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns from `start` on: in each of the `iterations`, `each` panels of `width` columns."""

    builder: Builder
    p: Product
    rows: Sequence[Rows]
    start: int
    iterations: int
    each: int
    width: int

    def nest(self) -> list[Stmt]:
        """The product for these columns."""
        builder, p, k = self.builder, self.p, self.k
        counter, c, deep = builder.var(self.iterations), builder.var(self.each), _block(k)
        first = Affine(self.start) + times(counter, self.each * self.width)
        panel = memory(builder, p, "a panel", counter, (deep, self.width))
        if deep < k:
            wide = self.each * self.width
            sums = memory(builder, p, "sums", counter, (p.i.extent, wide))
            return loop(counter, self._blocks(panel, sums, first), independent=True)
        columns = first + times(c, self.width)

        def body(i: Affine, j: Var, acc: Local) -> tuple[Stmt, ...]:
            return epilogue(builder, p, i, columns + j, acc)

        each = loop(c, self._part(panel, columns, Affine(), k, body))
        return loop(counter, each, independent=True)

    @property
    def k(self) -> int:
        """Terms of a sum."""
        return static_size(self.p.k[0].extent)

    def _blocks(self, panel: Memory, sums: Memory, first: Affine) -> list[Stmt]:
        """An iteration's sums, block by block of their terms, then what is done with them."""
        builder, p, deep = self.builder, self.p, _block(self.k)
        block, zero, total = (
            builder.var(self.k // deep),
            builder.exprs.lit(0, p.acc.dtype),
            builder.local(p.acc.dtype),
        )
        left = self.k % deep
        out = self._each(sums, lambda i, j, at: (Store(sums.buffer, at, zero),))
        out += loop(block, self._add_block(panel, sums, first, times(block, deep), deep))
        out += self._add_block(panel, sums, first, Affine(self.k - left), left) if left else []

        def last(i: Var, j: Var, at: Affine) -> tuple[Stmt, ...]:
            body = epilogue(builder, p, Affine.of(i), first + j, total)
            return (Let(total, builder.exprs.load(sums.buffer, at)), *body)

        return [*out, *self._each(sums, last)]

    def _add_block(
        self, panel: Memory, sums: Memory, first: Affine, start: Affine, terms: int
    ) -> list[Stmt]:
        """A block of terms added to all sums of an iteration."""
        builder, c = self.builder, self.builder.var(self.each)
        own = times(c, self.width)

        def add(i: Affine, j: Var, acc: Local) -> tuple[Stmt, ...]:
            at = sums.start + i * sums.width + own + j
            return (Store(sums.buffer, at, builder.exprs.local(acc), add=True),)

        return loop(c, self._part(panel, first + own, start, terms, add))

    def _part(
        self, panel: Memory, columns: Affine, start: Affine, terms: int, body: Body
    ) -> list[Stmt]:
        """So many terms from `start` on of the sums from `columns` on: copied, then used."""
        builder, p = self.builder, self.p
        copy = copy_block(builder, p, panel, (p.k[0], start, terms), (p.j, columns, self.width))
        out = [copy]
        for rows in self.rows:
            counter, i, j = builder.var(rows.count), builder.var(rows.each), builder.var(self.width)
            k, acc = builder.var(terms), builder.local(p.acc.dtype)
            left = rows.left_element(builder, p, counter, i, start + k)
            right = builder.exprs.load(panel.buffer, panel.at(k, Affine.of(j)))
            done = body(rows.row(counter, i), j, acc)
            ahead = self._next(columns, start, terms, counter)
            out += loop(counter, [Product(i, j, (k,), left, right, acc, done, ahead)])
        return out

    def _next(self, columns: Affine, start: Affine, terms: int, counter: Var) -> Prefetch | None:
        """What the panel after this one is copied from: a share of it for each iteration."""
        (k,), j = self.p.k, self.p.j
        if terms < self.k and self.each == 1:
            start += terms
        elif self.iterations * self.each > 1:
            columns += self.width
        else:
            return None
        share = -(-terms // static_size(counter.extent))
        here = (k, start + times(counter, share), share)
        return soon(self.builder, self.p.right, (j, columns, self.width), here)

    def _each(self, sums: Memory, do: Callable[[Var, Var, Affine], tuple[Stmt, ...]]) -> list[Stmt]:
        """Something for each sum of an iteration."""
        i, j = self.builder.var(self.p.i.extent), self.builder.var(sums.width)
        inner = For(j, do(i, j, sums.at(i, Affine.of(j))), "lanes", independent=True)
        return [For(i, (inner,), independent=True)]


Body = Callable[[Affine, Var, Local], tuple[Stmt, ...]]
"""What is done with the sum at (i, j)."""


def _share_count(count: int, p: Product) -> int:
    """Among how many iterations `count` panels are divided, evenly if that is possible. The left
    matrix is read anew in each."""
    left = typical(p.i.extent) * typical(p.k[0].extent) * p.acc.dtype.itemsize
    wanted = TURNS if left <= FAR else TURNS // 2
    even = [t for t in range(2 * wanted, wanted // 2, -1) if count % t == 0]
    return min(even, key=lambda t: abs(t - wanted)) if even else min(count, wanted)


def _block(k: int) -> int:
    """How many of k terms make a block: about as many in each."""
    count = -(-k // DEEP)
    even = [k // c for c in range(count, 2 * count) if k % c == 0]
    return even[0] if even else -(-k // count)
