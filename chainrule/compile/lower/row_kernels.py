"""A kernel of rows: loops over the axes that its members share, and within a row phases.

What a phase computes it uses from registers; later phases read it from memory, a reduction's result
and numbers of the row from registers, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Var
from chainrule.compile.loops.folds import identity
from chainrule.compile.loops.statements import For, Into, Let, Mode, Stmt
from chainrule.compile.loops.views import ZERO, Index, runs_along
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.plan import Group, Member, Plan
from chainrule.compile.lower.shared_rows import share_memory


@final
@dataclass(eq=False, slots=True)
class Phase:
    """One loop within a row: over `axes`, which have the sizes `inner`."""

    inner: tuple[Extent, ...]
    axes: list[Var]
    before: list[Stmt] = field(default_factory=list[Stmt])
    body: list[Stmt] = field(default_factory=list[Stmt])
    last: list[Stmt] = field(default_factory=list[Stmt])
    """Stores in place: when everything that reads the old values has been computed."""
    after: list[Stmt] = field(default_factory=list[Stmt])


@final
class Rows:
    """Builds a kernel of rows."""

    def __init__(self, plan: Plan, builder: Builder, g: Group) -> None:
        self.plan, self.builder, self.g = plan, builder, g
        self.members = {m.term: m for m in g.members}
        self.rows = [builder.var(n) for n in g.rows]
        self.phases: list[Phase] = []
        self.at: dict[Term, int] = {}
        self.lanes_inside = g.inside or not (g.across or self._flat())

    def _flat(self) -> bool:
        """Whether every member is computed once for each row: lanes may run along the rows."""
        return all(len(m.along) == len([v for v in m.own if v.extent != 1]) for m in self.g.members)

    def body(self) -> list[Stmt]:
        """The statements."""
        for m in self.g.members:
            self._add(m)
        out: list[Stmt] = []
        for p in self.phases:
            out += p.before
            inner: list[Stmt] = [*p.body, *p.last]
            folds = any(isinstance(s, Into) for s in inner)
            for n, v in enumerate(reversed(p.axes)):
                mode: Mode = "lanes" if n == 0 and self.lanes_inside else "serial"
                inner = [For(v, tuple(inner), mode, independent=not folds)]
            out += [*inner, *p.after]
        for n, v in enumerate(reversed(self.rows)):
            mode = "lanes" if n == 0 and not self.lanes_inside else "serial"
            out = [For(v, tuple(out), mode, independent=True)]
        return share_memory(self.plan, self.builder.exprs, self.g, out)

    def _phase(self, m: Member, inner: tuple[Extent, ...]) -> int:
        least = 0
        for x, index in m.requests:
            if x not in self.at:
                continue
            other = self.members[x]
            same = other.reduces is None and self._same_place(m, other, index)
            same = same and self.phases[self.at[x]].inner == inner
            least = max(least, self.at[x] + (0 if same else 1))
        for x in self.plan.memory.waits_for.get(m.term, ()):  # read before it is overwritten
            least = max(least, self.at.get(x, 0))
        for i in range(least, len(self.phases)):
            if self.phases[i].inner == inner:
                return i
        self.phases.append(Phase(inner, [self.builder.var(n) for n in inner]))
        return len(self.phases) - 1

    def _same_place(self, m: Member, other: Member, index: Index) -> bool:
        """Whether `m` reads `other` only where it is itself."""
        free = [v for a, v in enumerate(m.own) if a not in m.along and v.extent != 1]
        theirs = [a for a, v in enumerate(other.own) if a not in other.along and v.extent != 1]
        if len(free) != len(theirs):
            return False
        return all(runs_along(index, a, v) for a, v in zip(theirs, free, strict=True))

    def _add(self, m: Member) -> None:
        builder = self.builder
        free = [a for a, v in enumerate(m.own) if a not in m.along and v.extent != 1]
        inner = tuple([m.own[a].extent for a in free])
        number = self._phase(m, inner)
        phase = self.phases[number]
        self.at[m.term] = number
        index: list[Affine] = [ZERO] * len(m.own)
        for a, i in m.along.items():
            index[a] = Affine.of(self.rows[i])
        for a, v in zip(free, phase.axes, strict=True):
            index[a] = Affine.of(v)
        builder.elements.forget()
        if m.reduces is not None:
            self._reduce(m, phase, tuple(index))
            return
        where = tuple(index)
        value = builder.exprs.cast(builder.elements.computed(m.term, where), m.term.dtype)
        in_place = self.plan.views[m.term].buffer.role == "state"
        local = builder.local(m.term.dtype)  # computed once; expressions stay small
        phase.body.append(Let(local, value))
        value = builder.exprs.local(local)
        (phase.last if in_place else phase.body).append(builder.store(m.term, where, value))
        builder.elements.in_registers[m.term] = lambda at: value if at == where else None

    def _reduce(self, m: Member, phase: Phase, index: Index) -> None:
        builder, red = self.builder, m.reduces
        assert red is not None
        e = builder.exprs
        acc = builder.local(red.dtype)
        phase.before.append(Let(acc, e.lit(identity(red.fold, red.dtype), red.dtype)))
        value = e.cast(builder.element(m.term.args[0], index), red.dtype)
        phase.body.append(Into(acc, red.fold, value))
        total = builder.local(m.term.dtype)
        phase.after.append(Let(total, e.cast(e.local(acc), m.term.dtype)))
        kept = [i for a, i in enumerate(index) if a not in red.axes]
        at = (
            tuple([ZERO if a in red.axes else i for a, i in enumerate(index)])
            if red.keepdims
            else tuple(kept)
        )
        if len(at) != len(m.term.shape):
            at = tuple([i for i in at if i != ZERO])
        phase.after.append(builder.store(m.term, at, e.local(total)))
        builder.elements.in_registers[m.term] = lambda _: e.local(total)
