"""What products in panels are written with: memory of an iteration, copies of parts of matrices,
what is done with each element, in new names.

A `Range` is so many values of a counter, from an offset on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, Var
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import For, Let, Prefetch, Product, Stmt, Store, statements
from chainrule.compile.lower.builder import Builder

Range = tuple[Var, Affine, Extent]


@final
@dataclass(frozen=True, slots=True)
class Memory:
    """Rows of `width` numbers, from `start` on."""

    buffer: Buffer
    start: Affine
    width: int

    def at(self, row: Var, column: Affine) -> Affine:
        """Where an element is."""
        return self.start + Affine.of(row) * self.width + column


def memory(
    builder: Builder, p: Product, label: str, counter: Var, shape: tuple[Extent, int]
) -> Memory:
    """New memory for each iteration of a counter, in the dtype of the product's sums."""
    rows, width = shape
    b = builder.memory(p.acc.dtype, (counter.extent, *shape), label)
    return Memory(b, times(counter, rows * width), width)


def copy_block(builder: Builder, p: Product, to: Memory, terms: Range, columns: Range) -> Stmt:
    """A part of the right matrix, copied."""
    (k, start, count), (j, first, wide) = terms, columns
    row, column = builder.var(count), builder.var(wide)
    here = {k: start + row, j: first + column}
    value = Renaming(here, exprs=builder.exprs).expr(p.right)
    store = Store(to.buffer, to.at(row, Affine.of(column)), value)
    inner = For(column, (store,), "lanes", independent=True)
    return For(row, (inner,), independent=True)


def epilogue(builder: Builder, p: Product, i: Affine, j: Affine, acc: Local) -> tuple[Stmt, ...]:
    """What is done with the element at (i, j), which `acc` holds."""
    own = {x.local: builder.local(x.local.dtype) for x in statements(p.body) if isinstance(x, Let)}
    return Renaming({p.i: i, p.j: j}, {p.acc: acc, **own}, exprs=builder.exprs).body(p.body)


def soon(builder: Builder, x: Expr, one: Range, other: Range) -> Prefetch | None:
    """The memory of `x` in these ranges of its counters, if along one of them it lies together."""
    while x.kind == "fn" and x.of[0] == "cast":
        x = x.of[1]
    if x.kind != "load" or x.of[2] is not None:
        return None
    buffer, at, _ = x.of
    here = Renaming({v: start for v, start, _ in (one, other)}, exprs=builder.exprs).affine(at)
    for (v, _, length), (w, _, rows) in ((one, other), (other, one)):
        if at.coefficient(v) == 1:
            return Prefetch(buffer, here, rows, at.coefficient(w), length)
    return None


def static_size(n: Extent) -> int:
    """A size that `pays` has found to be known."""
    assert isinstance(n, int)
    return n


def times(v: Var, by: Extent) -> Affine:
    """`by` for each iteration of `v`, which has no counter if it has one iteration."""
    return Affine() if v.extent == 1 else Affine.of(v) * by


def loop(v: Var, body: list[Stmt], *, independent: bool = False) -> list[Stmt]:
    """`body` for each iteration of `v`."""
    return body if v.extent == 1 else [For(v, tuple(body), independent=independent)]
