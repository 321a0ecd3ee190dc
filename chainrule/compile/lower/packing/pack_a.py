"""The rows of a left matrix: as they are, or, where the terms of a sum lie across, in strips.

A tile of a few rows reads a line of memory for each term. Where those lines are a wide matrix apart
they fall into few places of a cache and onto as many pages, once for each panel. Copied first, a
strip of as many rows as a line or three hold, term after term, is read from one end to the other.

    for k < 1024: for r < 96: for i < 16 lanes: strips[16384*r + 16*k + i] = left(16*r + i, k)
    for c < 6:
      for r < 96:
        product i < 16, j < 64, k < 1024: acc += strips[16384*r + 16*k + i] * panel[64*k + j]

Notation: m n k as in (m, k) @ (k, n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Var, within
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import For, Product, Stmt, Store
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.packing.copies import static_size, times

DEEP = 128
"""Terms from which on the first cache does not hold their lines."""
PANELS = 3
"""Of so many panels, at least, each reads all rows."""
MANY = 1024
"""Rows from which on those that no strip has are worth the code of a tile of their own."""


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """`count` times `each` rows from `start` on, copied to `strips`, if anywhere."""

    start: int
    count: int
    each: Extent
    strips: Buffer | None = None

    def row(self, counter: Var, i: Var) -> Affine:
        """The number of a row."""
        return Affine(self.start) + times(counter, self.each) + i

    def left_element(
        self, builder: Builder, p: Product, counter: Var, i: Var, term: Affine
    ) -> Expr:
        """The left matrix there."""
        (k,) = p.k
        if self.strips is None:
            return Renaming({p.i: self.row(counter, i), k: term}, exprs=builder.exprs).expr(p.left)
        assert isinstance(self.each, int)
        at = times(counter, static_size(k.extent) * self.each) + term * self.each
        return builder.exprs.load(self.strips, at + i)


def rows(builder: Builder, p: Product, panels: int) -> Sequence[Rows]:
    """All rows of `p`, which are read for each of so many panels; a kernel copies them first."""
    m, line = p.i.extent, builder.target.line // p.acc.dtype.itemsize
    if not isinstance(m, int) or panels < PANELS or not _across(p):
        return [Rows(0, 1, m)]
    each = line if m % (3 * line) else 3 * line  # in which tiles of six rows leave none over
    if m % each and m < MANY:
        return [Rows(0, 1, m)]
    count, left = divmod(m, each)
    strips = builder.memory(p.acc.dtype, (count, static_size(p.k[0].extent), each), "strips")
    builder.kernel("strips", [_copy(builder, p, strips)])
    return [Rows(0, count, each, strips), *([Rows(m - left, 1, left)] if left else [])]


def _across(p: Product) -> bool:
    """Whether many terms of a sum lie across the rows, which lie side by side."""
    (k,) = p.k
    loads = [x for x in within(p.left) if x.kind == "load"]
    return static_size(k.extent) > DEEP and any(
        x.of[1].coefficient(p.i) == 1 and x.of[1].coefficient(k) not in (0, 1) for x in loads
    )


def _copy(builder: Builder, p: Product, to: Buffer) -> Stmt:
    """The rows of all strips."""
    count, terms, each = map(static_size, to.shape)
    term, strip, i = builder.var(terms), builder.var(count), builder.var(each)
    row = times(strip, each) + i
    value = Renaming({p.i: row, p.k[0]: Affine.of(term)}, exprs=builder.exprs).expr(p.left)
    at = times(strip, terms * each) + Affine.of(term) * each + i
    inner = For(i, (Store(to, at, value),), "lanes", independent=True)
    return For(term, (For(strip, (inner,), independent=True),), independent=True)
