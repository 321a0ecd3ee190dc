"""Products of a left matrix that no cache holds: some of its rows at a time, with all panels.

The right matrix, which is small, is copied once, in panels. Then each block of rows of the left one
comes from memory once, while the block before it is used.

    for c < 12: for k < 256: for j < 64 lanes: panels[16384*c + 64*k + j] = right(k, 64*c + j)
    for b < 196:
      for c < 12:
        product i < 256, j < 64, k < 256: acc += left(256*b + i, k) * panels[16384*c + 64*k + j]
          ...

Notation: m n k as in (m, k) @ (k, n).
"""

from __future__ import annotations

from chainrule.compile.loops.expressions import Affine
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import Product, Stmt
from chainrule.compile.lower.builder import Builder
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

FAR = 1 << 24
"""Bytes of a left matrix from which on it does not stay in any cache."""
SMALL = 1 << 22
"""Bytes of a right matrix up to which all of it stays in the last one."""
ROWS = 256
"""Rows of a block of the left matrix."""


def suits(p: Product) -> bool:
    """Whether `p` is such a product."""
    m, n, k = p.i.extent, p.j.extent, p.k[0].extent
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)):
        return False
    size = k * p.acc.dtype.itemsize
    return m * size > FAR and n * size <= SMALL


def in_rows(builder: Builder, p: Product, width: int, count: int) -> list[Stmt]:
    """`p` for the columns of `count` panels of this width."""
    (k,) = p.k
    c, m = builder.var(count), static_size(p.i.extent)
    panels = memory(builder, p, "panels", c, (k.extent, width))
    terms, columns = (k, Affine(), k.extent), (p.j, times(c, width), width)
    block = builder.var(m // ROWS)
    out = loop(c, [copy_block(builder, p, panels, terms, columns)], independent=True)
    rows = _rows(builder, p, panels, (times(block, ROWS), ROWS), count)
    out += loop(block, rows, independent=True)
    if m % ROWS:
        out += _rows(builder, p, panels, (Affine(m - m % ROWS), m % ROWS), count)
    return out


def _rows(
    builder: Builder, p: Product, panels: Memory, part: tuple[Affine, int], count: int
) -> list[Stmt]:
    """So many rows from one on, with all panels."""
    (k,), (start, rows), width = p.k, part, panels.width
    c, i, j, term = builder.var(count), builder.var(rows), builder.var(width), builder.var(k.extent)
    acc, row = builder.local(p.acc.dtype), start + i
    left = Renaming({p.i: row, k: Affine.of(term)}, exprs=builder.exprs).expr(p.left)
    of_c = Memory(panels.buffer, times(c, k.extent * width), width)
    right = builder.exprs.load(panels.buffer, of_c.at(term, Affine.of(j)))
    body = epilogue(builder, p, row, times(c, width) + j, acc)
    following = (p.i, start + rows, rows)
    ahead = soon(builder, p.left, following, (k, Affine(), k.extent))
    return loop(c, [Product(i, j, (term,), left, right, acc, body, ahead)])
