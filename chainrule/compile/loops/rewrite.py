"""Kernels in other names: counters, locals and buffers replaced throughout a body.

`canonical` gives kernels that do the same to different memory the same text. So the layers of a
model, which are all alike, are compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops import statements as loops
from chainrule.compile.loops.accesses import accesses
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Exprs, Local, Var


@final
@dataclass
class Renaming:
    """What stands for what. A counter may become an offset; a buffer may begin further on: `shifts`
    is subtracted from every offset in it. A buffer in `segments` is several others, of which the
    offset tells which one it is, and where that begins. An offset in which a pair of `merged`
    counters counts as one, the second of them within the first, has what stands for both."""

    vars: dict[Var, Affine] = field(default_factory=dict[Var, Affine])
    locals: dict[Local, Local] = field(default_factory=dict[Local, Local])
    buffers: Mapping[Buffer, Buffer] = field(default_factory=dict[Buffer, Buffer])
    shifts: Mapping[Buffer, Affine] = field(default_factory=dict[Buffer, Affine])
    exprs: Exprs = field(default_factory=Exprs)
    _memo: dict[Expr, Expr] = field(default_factory=dict[Expr, Expr])
    segments: Mapping[Buffer, Callable[[Affine], tuple[Buffer, int]]] = field(
        default_factory=dict[Buffer, Callable[[Affine], tuple[Buffer, int]]]
    )

    merged: Mapping[tuple[Var, Var], Affine] = field(default_factory=dict[tuple[Var, Var], Affine])

    def body(self, body: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        """Statements."""
        return tuple([self.stmt(s) for s in body])

    def stmt(self, s: loops.Stmt) -> loops.Stmt:
        """A statement."""
        match s:
            case loops.For():
                end = None if s.upto is None else self.affine(s.upto)
                return loops.For(self._var(s.var), self.body(s.body), s.mode, end, s.independent)
            case loops.Let():
                return loops.Let(self._local(s.local), self.expr(s.value))
            case loops.Into():
                return loops.Into(self._local(s.local), s.fold, self.expr(s.value))
            case loops.Store():
                buffer, at = self._place(s.buffer, s.at)
                return loops.Store(buffer, at, self.expr(s.value), s.add)
            case loops.Product():
                return loops.Product(
                    self._var(s.i), self._var(s.j), tuple([self._var(k) for k in s.k]),
                    self.expr(s.left), self.expr(s.right), self._local(s.acc), self.body(s.body),
                    None if s.prefetch is None else self._soon(s.prefetch),
                )  # fmt: skip
            case loops.Gemm():
                left, right, out = map(self.matrix, (s.left, s.right, s.out))
                end = None if s.upto is None else (s.upto[0], self.affine(s.upto[1]))
                return loops.Gemm(s.m, s.n, s.k, left, right, out, s.add, end)
            case loops.Routine():
                args = [self.span(x) if isinstance(x, loops.Span) else x for x in s.args]
                return loops.Routine(s.name, s.dtype, tuple(args))
            case loops.Host():
                inputs, outputs = (
                    tuple(map(self._rename_strided, x)) for x in (s.inputs, s.outputs)
                )
                when = None if s.when is None else self.buffers.get(s.when, s.when)
                return loops.Host(s.op, inputs, outputs, when)
            case loops.While():
                kernels = [loops.Kernel(k.name, self.body(k.body), k.about) for k in s.kernels]
                return loops.While(self.buffers.get(s.going, s.going), tuple(kernels))

    def expr(self, e: Expr) -> Expr:
        """An expression."""
        if e not in self._memo:
            self._memo[e] = self._expr(e)
        return self._memo[e]

    def _expr(self, e: Expr) -> Expr:
        """The expression in the new names."""
        make = self.exprs
        match e.kind:
            case "lit":
                return make.lit(e.of, e.dtype)
            case "local":
                return make.local(self._local(e.of))
            case "index":
                return make.index(self.affine(e.of))
            case "load":
                buffer, at, when = e.of
                new, place = self._place(buffer, at)
                return make.load(new, place, None if when is None else self.expr(when))
            case "fn":
                name, *args = e.of
                return make.fn(name, *[self.expr(a) for a in args], dtype=e.dtype)

    def affine(self, at: Affine) -> Affine:
        """An offset."""
        total = Affine(at.const)
        for (i, j), both in self.merged.items():
            c = at.coefficient(j)
            if c != 0 and at.coefficient(i) == c * j.extent:
                total += both * c
                at = Affine(at.const, tuple([(v, n) for v, n in at.terms if v not in (i, j)]))
        for v, c in at.terms:
            part = self._counter(v) if isinstance(v, Var) else Affine.of(self.expr(v))
            total += part * c
        return total

    def _counter(self, v: Var) -> Affine:
        return self.vars[v] if v in self.vars else Affine.of(v)

    def _var(self, v: Var) -> Var:
        """The counter that stands for another one in a loop."""
        new = self.vars.get(v)
        return v if new is None else new.terms[0][0]  # type: ignore[return-value]

    def _local(self, local: Local) -> Local:
        return self.locals.get(local, local)

    def _place(self, buffer: Buffer, at: Affine) -> tuple[Buffer, Affine]:
        if (segment := self.segments.get(buffer)) is not None:
            new, start = segment(at)
            return new, self.affine(at) - start
        shift = self.shifts.get(buffer)
        place = self.affine(at)
        if shift is not None:
            place -= shift
        return self.buffers.get(buffer, buffer), place

    def _soon(self, x: loops.Prefetch) -> loops.Prefetch:
        buffer, at = self._place(x.buffer, x.at)
        return loops.Prefetch(buffer, at, x.rows, x.row, x.length)

    def _rename_strided(self, x: loops.Strided) -> loops.Strided:
        return replace(x, buffer=self.buffers.get(x.buffer, x.buffer))

    def span(self, x: loops.Span) -> loops.Span:
        """Memory that a routine is given."""
        buffer, at = self._place(x.buffer, x.at)
        return loops.Span(buffer, at, x.size, x.use)

    def matrix(self, m: loops.Matrix) -> loops.Matrix:
        """Where a matrix is."""
        buffer, at = self._place(m.buffer, m.at)
        return loops.Matrix(buffer, at, m.row, m.col)


# --- one text for kernels that do the same -------------------------------------------------------


@final
@dataclass(frozen=True)
class Canonical:
    """A kernel whose buffers, counters and locals are numbered; `args` are the buffers that it
    stands for in a call, and from which element on."""

    kernel: loops.Kernel
    args: tuple[tuple[Buffer, Extent], ...]

    @property
    def text(self) -> str:
        """What it does: equal for kernels that do the same."""
        kinds = ", ".join([f"{b.dtype} {b.run}" for b in sorted_buffers(self.kernel)])
        return f"{kinds}\n{self.kernel}"


def sorted_buffers(kernel: loops.Kernel) -> list[Buffer]:
    """The buffers of a kernel: those that it reads, then those that it only writes."""
    reads, writes = kernel.buffers()
    return list(dict.fromkeys([*reads, *writes]))


def canonical(kernel: loops.Kernel) -> Canonical:
    """`kernel` in numbered names."""
    buffers = sorted_buffers(kernel)
    starts = _starts(kernel)
    new = {b: Buffer(f"p{i}", b.dtype, (), "scratch", run=b.run) for i, b in enumerate(buffers)}
    vars_: dict[Var, Affine] = {}
    locals_: dict[Local, Local] = {}
    for s in loops.statements(kernel.body):
        for v in loops.counters_of(s):
            vars_[v] = Affine.of(Var(f"i{len(vars_)}", v.extent))
        local = (
            s.local if isinstance(s, loops.Let) else s.acc if isinstance(s, loops.Product) else None
        )
        if local is not None:
            locals_[local] = Local(f"r{len(locals_)}", local.dtype)
    renaming = Renaming(vars_, locals_, new, {b: Affine(n) for b, n in starts.items()})
    body = renaming.body(kernel.body)
    return Canonical(loops.Kernel("", body), tuple([(b, starts.get(b, 0)) for b in buffers]))


def _starts(kernel: loops.Kernel) -> dict[Buffer, Extent]:
    """From which element on a kernel uses each buffer, where that is the same everywhere."""
    found: dict[Buffer, set[Extent]] = {}
    for x in accesses(kernel.body):
        found.setdefault(x.buffer, set()).add(0 if x.guarded else x.at.const)
    return {b: next(iter(starts)) for b, starts in found.items() if len(starts) == 1}
