"""What kernels that call LAPACK share: memory for one matrix of a batch after the other.

Around each call matrices are copied into columns, as LAPACK wants them, and back. A routine says by
an integer, `info`, whether it succeeded. If one of a batch did not, the op runs in its eager form
on the same values. It raises what it raises in eager mode. Then the flag that told of the failure
still does, which ends loops of unknown length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, final

import numpy as np

from chainrule.compile.graph.compiled_ops import Fallback
from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Buffer, Expr
from chainrule.compile.loops.statements import (
    For,
    Host,
    Into,
    Let,
    Routine,
    Span,
    Stmt,
    Store,
    Strided,
)
from chainrule.compile.loops.views import ZERO, Index, View, broadcast_index
from chainrule.compile.lower import single_op
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.index_arrays import BOOL
from chainrule.compile.lower.plan import Plan

I32 = np.dtype(np.int32)


@final
class Factoring:
    """What the routines of one kernel share: memory for a matrix of the batch, and its index."""

    def __init__(
        self, plan: Plan, builder: Builder, t: Term, batch: Sequence[Extent], dtype: Any
    ) -> None:
        self.plan, self.builder, self.t = plan, builder, t
        self.dtype, self.e = dtype, builder.exprs
        self.axes, self.lead = builder.counters(batch)
        self.info = self.memory(I32, 1, "info")

    def memory(self, dtype: Any, size: Extent, label: str) -> Buffer:
        """Scratch memory of so many numbers."""
        return self.builder.memory(dtype, (size,), label)

    def floats(self, size: Extent, label: str) -> Buffer:
        """The same for floats."""
        return self.memory(self.dtype, size, label)

    def element(self, x: Term, at: Index) -> Expr:
        """The element of the matrix that `x` has for this one of the batch."""
        lead = broadcast_index(self.lead, x.shape[:-2])
        return self.e.cast(self.builder.element(x, (*lead, *at)), self.dtype)

    def columns(self, b: Buffer, rows: Extent, cols: Extent, of: Callable[[Index], Expr]) -> Stmt:
        """Fill `b` with a matrix, column by column."""
        (i, j), (row, col) = self.builder.counters((rows, cols))
        store = Store(b, row + col * rows, of((row, col)))
        return self.nested([j, i], [store])

    def back(self, y: View, b: Buffer, ld: Extent, rows: Extent, cols: Extent) -> Stmt:
        """Copy a matrix, whose columns are `ld` apart in `b`, to where `y` has it."""
        (i, j), (row, col) = self.builder.counters((rows, cols))
        value = self.e.load(b, row + col * ld)
        return self.nested([i, j], [Store(y.buffer, y.at((*self.lead, row, col)), value)])

    def nested(self, axes: Sequence[Any], body: Sequence[Stmt]) -> Stmt:
        """Loops over `axes`, as one statement."""
        nest = self.builder.nest(axes, body)
        return nest[0] if len(nest) == 1 else For(self.builder.var(1), tuple(nest))

    def call(self, name: str, *args: str | Extent | Span) -> Routine:
        """A routine, with `info` as its last argument."""
        return Routine(name, self.dtype, (*args, Span(self.info, ZERO, 1, "out")))

    def failed(self) -> Expr:
        """Whether the last call did not succeed."""
        said = self.e.load(self.info, ZERO)
        return self.e.fn("not_equal", said, self.e.lit(0, I32))

    def all(self, body: Sequence[Stmt]) -> list[Stmt]:
        """`body` for each matrix of the batch."""
        fine = Store(self.info, ZERO, self.e.lit(0, I32))  # for a call that is left out
        return self.builder.nest(self.axes, [fine, *body], "serial", chained=self.axes)

    def or_eager(self, body: Sequence[Stmt]) -> list[list[Stmt]]:
        """The same; and as another kernel the op in its eager form, if a last call did not
        succeed."""
        builder, e, bad = self.builder, self.e, self.builder.local(BOOL)
        flag = self.memory(BOOL, 1, "failed")
        tried = self.all([*body, Into(bad, "logical_or", self.failed())])
        told = Store(flag, ZERO, e.local(bad))
        (host,) = single_op.host(self.plan, builder, self.t)
        assert isinstance(host, Host)
        first = Let(bad, e.lit(False, BOOL))
        outputs = (*host.outputs, Strided(flag, 0, (), ()))
        return [[first, *tried, told], [Host(Fallback(host.op), host.inputs, outputs, flag)]]


def entire(b: Buffer, use: Literal["in", "out", "inout"]) -> Span:
    """All of `b`."""
    return Span(b, ZERO, b.size, use)
