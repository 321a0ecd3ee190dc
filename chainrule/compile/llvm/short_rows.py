"""Loops over the same short row, one after the other, as a row that stays in registers.

A softmax goes over its row three times, and each time memory lies between: what one loop stored the
next one loads. Where the row does not fill its vectors that is under a mask, and the processor
waits for the store. Here the row is a few vectors and each loop is these vectors: what one loop has
loaded, computed or stored the next one knows.

A row whose length is known only at run time has this form twice, for up to 32 and up to 64 bytes.
Loops serve other lengths.

Notation: W lanes of a vector; `b` the builder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

from llvmlite import ir

from chainrule.compile.graph.sizes import Extent, typical
from chainrule.compile.llvm import lanes
from chainrule.compile.llvm.numbers import I64
from chainrule.compile.loops.expressions import Affine, Exprs, Var
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import For, Into, Let, Stmt, Store

if TYPE_CHECKING:
    from chainrule.compile.llvm.kernel import Emitter

MOST = 4
"""Vectors of a row."""


@final
class Row:
    """The statements of a block that go along a short row of `n`: its `loops`, and between and
    after them what is done once."""

    def __init__(self, e: Emitter, body: Sequence[Stmt], loops: Sequence[For]) -> None:
        self._e, self._body = e, body
        self._vars = [s.var for s in loops]
        self._n: Extent = loops[0].var.extent
        self._width = lanes.widest(e.target, [x for s in loops for x in s.body], self._n)

    @property
    def is_short(self) -> bool:
        """Whether it is to be in registers, at least where it turns out to be short."""
        if isinstance(self._n, int):
            return self._n <= MOST * self._width
        return typical(self._n) < lanes.LONG * max(self._forms)

    @property
    def _forms(self) -> tuple[int, int]:
        """Lengths of a row of unknown length for which there is a form without loops."""
        vector = self._e.target.vector
        short, long = (vector // 2, vector) if vector >= 64 else (vector, 2 * vector)
        return short * self._width // vector, long * self._width // vector

    def emit(self, otherwise: Callable[[], None]) -> None:
        """Emit the statements; `otherwise` emits them as loops."""
        if isinstance(self._n, int):
            self._in_registers(self._n)
        else:
            short, long = self._forms
            self._at_most(short, lambda: self._at_most(long, otherwise))

    def _at_most(self, length: int, otherwise: Callable[[], None]) -> None:
        """So many vectors where that is enough."""
        e, b = self._e, self._e.b
        enough = b.icmp_signed("<=", e.extent(self._n), ir.Constant(I64, length))
        with b.if_else(enough) as (then, other):
            with then:
                self._in_registers(length)
            with other, e.known.within():
                otherwise()

    def _in_registers(self, length: int) -> None:
        """Each loop as the vectors of a row of at most `length`. A vector has one counter in all of
        the loops, so that what is alike in them is one expression."""
        e, exprs = self._e, Exprs()
        width = self._width if isinstance(self._n, int) else min(length, self._width)
        vectors = self._vectors(length, width)
        counters = [Affine.of(v.var) for v in vectors]
        renamings = [Renaming(dict.fromkeys(self._vars, c), exprs=exprs) for c in counters]
        plain = Renaming(exprs=exprs)
        with e.known.within(), e.known.apart([v.var for v in vectors]):
            for s in self._body:
                if not isinstance(s, For):
                    e.run([plain.stmt(s)])
                    continue
                with lanes.folding(e, s.body, width):
                    for vector, renaming in zip(vectors, renamings, strict=True):
                        for local in [x.local for x in s.body if isinstance(x, Let)]:
                            e.known.invalidate_local(local)  # the vector before had it, too
                        lanes.vector(e, renaming.body(s.body), vector)

    def _vectors(self, length: int, width: int) -> list[lanes.Lanes]:
        e, n = self._e, self._n
        found: list[lanes.Lanes] = []
        for i in range(0, length, width):
            start, mask = ir.Constant(I64, i), None
            if not isinstance(n, int):
                mask = lanes.below(e.b, e.extent(n), start, width)
            elif n - i < width:
                mask = lanes.first_lanes(n - i, width)
            found.append(lanes.Lanes(Var("row", n), width, start, mask))
        return found


def row_of(e: Emitter, body: Sequence[Stmt]) -> Row | None:
    """The short row that `body`, which begins with a loop along it, goes over at least twice."""
    loops = [s for s in body if isinstance(s, For)]
    if len(loops) < 2 or loops[0] is not body[0]:
        return None
    n = loops[0].var.extent
    if not all(s.mode == "lanes" and s.upto is None and s.var.extent == n for s in loops):
        return None
    inner = [x for s in body for x in (s.body if isinstance(s, For) else [s])]
    if not all(isinstance(s, Let | Into | Store) for s in inner):
        return None
    row = Row(e, body, loops)
    return row if row.is_short else None
