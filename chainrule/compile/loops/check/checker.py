"""What a program in the loop language must be: `check` says whether it is.

| of | it is checked that |
|---|---|
| names | counters and locals are known where they are used, and set once |
| numbers | arguments of a function agree in dtype, conditions are bools, stores fit their buffers |
| loops | lanes are not within lanes; what differs from lane to lane goes to places that differ |
| products | left knows no j, right no i; right's elements are neighbours along j |
| places | offsets are within their buffers, where intervals of counters and clamped indices tell |
| order | what is computed is written before it is read; what is given is never written |
| while | a turn can end it; it shares its kernel with nothing |
| cores | turns of a parallel loop do not touch what another one writes |
| memory | buffers that live at the same time lie apart |

Sizes with symbols are tried with numbers: there must be some with which all of it holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, final

import numpy as np

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops import memory
from chainrule.compile.loops.check.accesses import (
    SpecError,
    check_disjoint,
    check_order,
    inside,
    refuse,
)
from chainrule.compile.loops.check.races import side_by_side
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, Var, computable, within
from chainrule.compile.loops.functions import is_function, value_dtype
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Host,
    Into,
    Kernel,
    Let,
    Loops,
    Product,
    Routine,
    Span,
    Stmt,
    Store,
    While,
    exprs_of,
    statements,
)

__all__ = ["SpecError", "check"]

BOOL, I64 = np.dtype(bool), np.dtype(np.int64)


def check(program: Loops) -> None:
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

    def __init__(self, program: Loops, kernel: Kernel) -> None:
        self._kernel = kernel
        self._program = program
        self._buffers = set(program.buffers)
        self._symbols = set(program.symbols)
        self._set: set[Var | Local] = set()
        self._fine: set[Expr] = set()
        self._folded = {s.local for s in statements(kernel.body) if isinstance(s, Into)}

    def body(self, body: tuple[Stmt, ...], scope: _Scope) -> None:
        """Statements in a scope, to which theirs is added."""
        for s in body:
            self._statement(s, scope)

    def _statement(self, s: Stmt, scope: _Scope) -> None:
        for e in exprs_of(s):
            self._expr(s, e, scope)
        match s:
            case For():
                self._for(s, scope)
            case Let():
                self._same(s, "a local and its value", s.local.dtype, s.value.dtype)
                self._define(s, s.local, scope)
                if scope.differs(s.value.free) or (scope.lanes and s.local in self._folded):
                    scope.lanes.add(s.local)
            case Into():
                self._into(s, scope)
            case Store():
                self._store(s, scope)
            case Product():
                self._product(s, scope)
            case Gemm():
                self._gemm(s, scope)
            case Routine():
                self._routine(s, scope)
            case Host():
                if self._kernel.body != (s,):
                    self._no(s, "an eager op shares its kernel")
                if s.when is not None and (s.when.dtype != BOOL or s.when.size != 1):
                    self._no(s, f"{s.when}, which says whether it is run, is not one bool")
                for x in (*s.inputs, *s.outputs):
                    self._buffer(s, x.buffer)
            case While():
                self._while(s)

    def _no(self, s: Stmt, why: str) -> NoReturn:
        refuse(self._kernel, s, why)

    def _same(self, s: Stmt, what: str, *dtypes: Any) -> None:
        if len(set(dtypes)) != 1:
            self._no(s, f"{what} differ in dtype: {', '.join(map(str, dtypes))}")

    def _define(self, s: Stmt, name: Var | Local, scope: _Scope) -> None:
        if name in self._set:
            self._no(s, f"{name} is set twice")
        self._set.add(name)
        scope.known.add(name)

    def _extent(self, s: Stmt, n: Extent) -> None:
        missing = () if isinstance(n, int) else n.symbols - self._symbols
        if missing:
            self._no(s, f"{', '.join(sorted(missing))} is no symbol of the program")

    def _buffer(self, s: Stmt, b: Buffer) -> None:
        if b not in self._buffers:
            self._no(s, f"{b} is no buffer of the program")

    # --- statements

    def _for(self, s: For, scope: _Scope) -> None:
        inner = _Scope(scope)
        self._extent(s, s.var.extent)
        self._define(s, s.var, inner)
        if s.upto is not None:
            self._offset(s, s.upto, scope)
            if scope.differs(_free(s.upto)):
                self._no(s, "lanes end at different places")
        if s.mode != "serial" and scope.lanes:
            self._no(s, f"{s.mode} within lanes")
        if s.mode == "lanes" and s.var.extent != 1:
            inner.lanes.add(s.var)
        self.body(s.body, inner)

    def _into(self, s: Into, scope: _Scope) -> None:
        if s.local not in scope.known:
            self._no(s, f"{s.local} has no value to begin with")
        self._same(s, "a local and what is folded into it", s.local.dtype, s.value.dtype)
        if s.fold.startswith("logical") and s.local.dtype != BOOL:
            self._no(s, f"{s.fold} of numbers that are not bools")

    def _store(self, s: Store, scope: _Scope) -> None:
        self._buffer(s, s.buffer)
        self._same(s, "a buffer and what is stored", s.buffer.dtype, s.value.dtype)
        self._offset(s, s.at, scope)
        if s.buffer.role in ("input", "constant"):
            self._no(s, f"{s.buffer} is only to be read, it is a program's {s.buffer.role}")
        if not s.add and scope.differs(s.value.free) and not scope.differs(_free(s.at)):
            self._no(s, "every lane stores at the same place")

    def _product(self, s: Product, scope: _Scope) -> None:
        if scope.lanes:
            self._no(s, "a product within lanes")
        ks, inner = _Scope(scope), _Scope(scope)
        for v in (s.i, s.j, *s.k):
            self._extent(s, v.extent)
            self._define(s, v, ks)
        self._same(s, "left, right and their sum", s.left.dtype, s.right.dtype, s.acc.dtype)
        if s.j in s.left.free:
            self._no(s, f"left depends on {s.j}")
        if s.i in s.right.free:
            self._no(s, f"right depends on {s.i}")
        if s.prefetch is not None:
            self._buffer(s, s.prefetch.buffer)
            self._offset(s, s.prefetch.at, scope)
        loads = [x.of[1] for x in within(s.right) if x.kind == "load"]
        if s.j.extent != 1 and any(at.coefficient(s.j) not in (0, 1) for at in loads):
            self._no(s, f"right's elements are no neighbours along {s.j}")
        inner.known |= {s.i, s.j}
        self._define(s, s.acc, inner)
        if s.j.extent != 1:
            inner.lanes |= {s.j, s.acc}
        self.body(s.body, inner)

    def _gemm(self, s: Gemm, scope: _Scope) -> None:
        if scope.lanes:
            self._no(s, "BLAS within lanes")
        for m in (s.left, s.right, s.out):
            self._buffer(s, m.buffer)
            self._offset(s, m.at, scope)
            if 1 not in (m.row, m.col):
                self._no(s, f"neither rows nor columns of {m.buffer} lie together")
        if s.upto is not None:
            self._offset(s, s.upto[1], scope)
        dtype = s.out.buffer.dtype
        self._same(s, "matrices", s.left.buffer.dtype, s.right.buffer.dtype, dtype)
        if dtype.char not in "fd":
            self._no(s, f"BLAS has no product of {dtype}")
        if s.out.buffer in (s.left.buffer, s.right.buffer):
            self._no(s, "a product overwrites what it reads")
        if s.out.buffer.role in ("input", "constant"):
            self._no(s, f"{s.out.buffer} is only to be read")

    def _routine(self, s: Routine, scope: _Scope) -> None:
        if scope.lanes:
            self._no(s, "LAPACK within lanes")
        if s.dtype.char not in "fd":
            self._no(s, f"LAPACK has no {s.name} of {s.dtype}")
        for x in s.spans("in", "out", "inout"):
            self._buffer(s, x.buffer)
            self._offset(s, x.at, scope)
            self._extent(s, x.size)
            if x.buffer.dtype not in (s.dtype, np.dtype(np.int32)):
                self._no(s, f"{x.buffer} is {x.buffer.dtype}")
            if x.use != "in" and x.buffer.role in ("input", "constant"):
                self._no(s, f"{x.buffer} is only to be read")
        for n in s.args:
            if not isinstance(n, str | Span):
                self._extent(s, n)

    def _while(self, s: While) -> None:
        if self._kernel.body != (s,):
            self._no(s, "a loop of unknown length shares its kernel")
        self._buffer(s, s.going)
        if s.going.dtype != BOOL or s.going.size != 1:
            self._no(s, f"{s.going}, which says whether it goes on, is not one bool")
        if not any(s.going in k.buffers()[1] for k in s.kernels):
            self._no(s, f"no turn writes {s.going}")
        for k in s.kernels:
            _Names(self._program, k).body(k.body, _Scope())

    # --- expressions

    def _expr(self, s: Stmt, e: Expr, scope: _Scope) -> None:
        own = {s.i, s.j, *s.k} if isinstance(s, Product) else set[Var]()
        unknown = e.free - scope.known - own
        if unknown:
            self._no(s, f"{', '.join(sorted(map(str, unknown)))} is not known")
        for x in within(e):
            if x not in self._fine:
                self._one(s, x)
                self._fine.add(x)

    def _one(self, s: Stmt, e: Expr) -> None:
        """An expression whose parts are fine."""
        if not computable(e.dtype):
            self._no(s, f"{e} is {e.dtype}, with which loops do not compute")
        match e.kind:
            case "fn":
                self._call(s, e, *e.of)
            case "load":
                buffer, at, when = e.of
                self._buffer(s, buffer)
                self._same(s, f"{buffer} and its element", buffer.dtype, e.dtype)
                self._integers(s, at)
                if when is not None and when.dtype != BOOL:
                    self._no(s, f"the condition {when} is {when.dtype}")
            case "index":
                self._same(s, "an index and its number", e.dtype, I64)
                self._integers(s, e.of)
            case "local":
                self._same(s, f"{e.of} and its value", e.of.dtype, e.dtype)
            case "lit":
                pass

    def _call(self, s: Stmt, e: Expr, name: str, *xs: Expr) -> None:
        dtypes = [x.dtype for x in xs]
        if name == "cast":
            if len(xs) != 1:
                self._no(s, f"{e} casts {len(xs)} numbers")
            return
        if name == "bits":
            if dtypes[0].kind != "f" or e.dtype != np.dtype(f"u{dtypes[0].itemsize}"):
                self._no(s, f"{e}: the bits of {dtypes[0]} are no {e.dtype}")
            return
        if name == "where":
            if len(xs) != 3 or dtypes[0] != BOOL:
                self._no(s, f"{e} does not choose by a condition")
            self._same(s, f"branches and value of {e}", *dtypes[1:], e.dtype)
            return
        if not is_function(name, dtypes[0]):
            self._no(s, f"there is no {name} of {dtypes[0]}")
        self._same(s, f"arguments of {name}", *dtypes)
        result = value_dtype(name, *dtypes)
        self._same(s, f"{name} of {dtypes[0]} and its value", result, e.dtype)

    def _offset(self, s: Stmt, at: Affine, scope: _Scope) -> None:
        unknown = _free(at) - scope.known
        if unknown:
            self._no(s, f"{', '.join(sorted(map(str, unknown)))} is not known")
        self._integers(s, at)

    def _integers(self, s: Stmt, at: Affine) -> None:
        for n in (at.const, *[c for _, c in at.terms]):
            self._extent(s, n)
        for v, _ in at.terms:
            if isinstance(v, Expr) and v.dtype.kind not in "iu":
                self._no(s, f"{v} is {v.dtype}, not a whole number")


def _free(at: Affine) -> set[Var | Local]:
    return {x for v, _ in at.terms for x in (v.free if isinstance(v, Expr) else (v,))}
