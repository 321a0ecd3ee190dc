"""What a program in the loop language must be: `check` says whether it is.

| of | it is checked that |
|---|---|
| names | counters and locals are known where they are used, and set once |
| numbers | arguments of a function agree in dtype, conditions are bools, stores fit their buffers |
| loops | lanes are not within lanes; what differs from lane to lane goes to places that differ |
| products | left knows no j, right no i; right's elements are neighbours along j |
| places | offsets are within their buffers, where intervals of counters and clamped indices tell |
| order | what is computed is written before it is read; what is given is never written |
| while | an iteration can end it; it shares its kernel with nothing |
| cores | iterations of a parallel loop do not touch what another one writes |
| memory | buffers that live at the same time lie apart |

Sizes with symbols are tried with numbers: there must be some with which all of it holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import numpy as np

from chainrule.compile.loops import memory
from chainrule.compile.loops import statements as loops
from chainrule.compile.loops.check.accesses import SpecError, check_disjoint, check_order, inside
from chainrule.compile.loops.check.operands import BOOL, Operands, free_in
from chainrule.compile.loops.check.races import side_by_side
from chainrule.compile.loops.expressions import Local, Var, within

__all__ = ["SpecError", "check"]


def check(program: loops.Loops) -> None:
    """Raise `SpecError`, which prints the statement, where `program` is not what it must be."""
    for k in program.kernels:
        _Names(program, k).body(k.body, _Scope())
    check_order(program)
    symbols = inside(program)
    side_by_side(program, symbols)
    lives = memory.lifetimes(program, [b for b in program.buffers if b.role == "scratch"])
    plan = memory.plan(list(lives), lives, symbols)
    check_disjoint(program, dict(zip(lives, plan.offsets, strict=True)), symbols)


# --- names, dtypes, lanes ------------------------------------------------------------------------


@final
class _Scope:
    """What is known at a statement; `lanes` those counters and locals that differ between lanes."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self.known: set[Var | Local] = set(outer.known) if outer else set()
        self.lanes: set[Var | Local] = set(outer.lanes) if outer else set()

    def differs(self, free: Iterable[Var | Local]) -> bool:
        """Whether what depends on these differs from lane to lane."""
        return not self.lanes.isdisjoint(free)


@final
class _Names:
    """Checks the statements of a kernel for all that sizes do not matter to."""

    def __init__(self, program: loops.Loops, kernel: loops.Kernel) -> None:
        self._kernel = kernel
        self._program = program
        self._of = Operands(program, kernel)
        self._set: set[Var | Local] = set()
        self._folded = {s.local for s in loops.statements(kernel.body) if isinstance(s, loops.Into)}

    def body(self, body: tuple[loops.Stmt, ...], scope: _Scope) -> None:
        """Statements in a scope, to which theirs is added."""
        for s in body:
            self._statement(s, scope)

    def _statement(self, s: loops.Stmt, scope: _Scope) -> None:
        """Check what a statement reads, what it defines, and that its dtypes agree."""
        for e in loops.exprs_of(s):
            self._of.expr(s, e, scope.known)
        match s:
            case loops.For():
                self._for(s, scope)
            case loops.Let():
                self._of.same(s, "a local and its value", s.local.dtype, s.value.dtype)
                self._define(s, s.local, scope)
                if scope.differs(s.value.free) or (scope.lanes and s.local in self._folded):
                    scope.lanes.add(s.local)
            case loops.Into():
                self._into(s, scope)
            case loops.Store():
                self._store(s, scope)
            case loops.Product():
                self._product(s, scope)
            case loops.Gemm():
                self._gemm(s, scope)
            case loops.Routine():
                self._routine(s, scope)
            case loops.Host():
                if self._kernel.body != (s,):
                    self._of.refuse(s, "an eager op shares its kernel")
                if s.when is not None and (s.when.dtype != BOOL or s.when.size != 1):
                    self._of.refuse(s, f"{s.when}, which says whether it is run, is not one bool")
                for x in (*s.inputs, *s.outputs):
                    self._of.buffer(s, x.buffer)
            case loops.While():
                self._while(s)

    def _define(self, s: loops.Stmt, name: Var | Local, scope: _Scope) -> None:
        if name in self._set:
            self._of.refuse(s, f"{name} is set twice")
        self._set.add(name)
        scope.known.add(name)

    # --- statements

    def _for(self, s: loops.For, scope: _Scope) -> None:
        inner = _Scope(scope)
        self._of.extent(s, s.var.extent)
        self._define(s, s.var, inner)
        if s.upto is not None:
            self._of.offset(s, s.upto, scope.known)
            if scope.differs(free_in(s.upto)):
                self._of.refuse(s, "lanes end at different places")
        if s.mode != "serial" and scope.lanes:
            self._of.refuse(s, f"{s.mode} within lanes")
        if s.mode == "lanes" and s.var.extent != 1:
            inner.lanes.add(s.var)
        self.body(s.body, inner)

    def _into(self, s: loops.Into, scope: _Scope) -> None:
        if s.local not in scope.known:
            self._of.refuse(s, f"{s.local} has no value to begin with")
        self._of.same(s, "a local and what is folded into it", s.local.dtype, s.value.dtype)
        if s.fold.startswith("logical") and s.local.dtype != BOOL:
            self._of.refuse(s, f"{s.fold} of numbers that are not bools")

    def _store(self, s: loops.Store, scope: _Scope) -> None:
        self._of.buffer(s, s.buffer)
        self._of.same(s, "a buffer and what is stored", s.buffer.dtype, s.value.dtype)
        self._of.offset(s, s.at, scope.known)
        if s.buffer.role in ("input", "constant"):
            self._of.refuse(s, f"{s.buffer} is only to be read, it is a program's {s.buffer.role}")
        if not s.add and scope.differs(s.value.free) and not scope.differs(free_in(s.at)):
            self._of.refuse(s, "every lane stores at the same place")

    def _product(self, s: loops.Product, scope: _Scope) -> None:
        """Check a matrix product: `left` does not depend on j, `right` not on i, and no lanes are
        around it."""
        if scope.lanes:
            self._of.refuse(s, "a product within lanes")
        ks, inner = _Scope(scope), _Scope(scope)
        for v in (s.i, s.j, *s.k):
            self._of.extent(s, v.extent)
            self._define(s, v, ks)
        self._of.same(s, "left, right and their sum", s.left.dtype, s.right.dtype, s.acc.dtype)
        if s.j in s.left.free:
            self._of.refuse(s, f"left depends on {s.j}")
        if s.i in s.right.free:
            self._of.refuse(s, f"right depends on {s.i}")
        if s.prefetch is not None:
            self._of.buffer(s, s.prefetch.buffer)
            self._of.offset(s, s.prefetch.at, scope.known)
        loads = [x.of[1] for x in within(s.right) if x.kind == "load"]
        if s.j.extent != 1 and any(at.coefficient(s.j) not in (0, 1) for at in loads):
            self._of.refuse(s, f"right's elements are no neighbours along {s.j}")
        inner.known |= {s.i, s.j}
        self._define(s, s.acc, inner)
        if s.j.extent != 1:
            inner.lanes |= {s.j, s.acc}
        self.body(s.body, inner)

    def _gemm(self, s: loops.Gemm, scope: _Scope) -> None:
        """Check a product by BLAS: rows or columns lie together, the dtype is one of its own."""
        if scope.lanes:
            self._of.refuse(s, "BLAS within lanes")
        for m in (s.left, s.right, s.out):
            self._of.buffer(s, m.buffer)
            self._of.offset(s, m.at, scope.known)
            if 1 not in (m.row, m.col):
                self._of.refuse(s, f"neither rows nor columns of {m.buffer} lie together")
        if s.upto is not None:
            self._of.offset(s, s.upto[1], scope.known)
        dtype = s.out.buffer.dtype
        self._of.same(s, "matrices", s.left.buffer.dtype, s.right.buffer.dtype, dtype)
        if dtype.char not in "fd":
            self._of.refuse(s, f"BLAS has no product of {dtype}")
        if s.out.buffer in (s.left.buffer, s.right.buffer):
            self._of.refuse(s, "a product overwrites what it reads")
        if s.out.buffer.role in ("input", "constant"):
            self._of.refuse(s, f"{s.out.buffer} is only to be read")

    def _routine(self, s: loops.Routine, scope: _Scope) -> None:
        """Check a routine of LAPACK's: it is of floats, its buffers are there, it writes to no
        input."""
        if scope.lanes:
            self._of.refuse(s, "LAPACK within lanes")
        if s.dtype.char not in "fd":
            self._of.refuse(s, f"LAPACK has no {s.name} of {s.dtype}")
        for x in s.spans("in", "out", "inout"):
            self._of.buffer(s, x.buffer)
            self._of.offset(s, x.at, scope.known)
            self._of.extent(s, x.size)
            if x.buffer.dtype not in (s.dtype, np.dtype(np.int32)):
                self._of.refuse(s, f"{x.buffer} is {x.buffer.dtype}")
            if x.use != "in" and x.buffer.role in ("input", "constant"):
                self._of.refuse(s, f"{x.buffer} is only to be read")
        for n in s.args:
            if not isinstance(n, str | loops.Span):
                self._of.extent(s, n)

    def _while(self, s: loops.While) -> None:
        if self._kernel.body != (s,):
            self._of.refuse(s, "a loop of unknown length shares its kernel")
        self._of.buffer(s, s.going)
        if s.going.dtype != BOOL or s.going.size != 1:
            self._of.refuse(s, f"{s.going}, which says whether it goes on, is not one bool")
        if not any(s.going in k.buffers()[1] for k in s.kernels):
            self._of.refuse(s, f"no turn writes {s.going}")
        for k in s.kernels:
            _Names(self._program, k).body(k.body, _Scope())
