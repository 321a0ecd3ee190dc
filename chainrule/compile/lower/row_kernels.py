"""A kernel of rows: loops over the axes that its members share, and within a row phases.

What a phase computes it uses from registers; later phases read it from memory, a reduction's result
and numbers of the row from registers, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Var
from chainrule.compile.loops.folds import identity
from chainrule.compile.loops.statements import For, Into, Let, Mode, Stmt
from chainrule.compile.loops.views import ZERO, Index
from chainrule.compile.lower import op_rules
from chainrule.compile.lower.kernel_group import Group, Member, runs_along
from chainrule.compile.lower.shared_rows import shared

if TYPE_CHECKING:
    from chainrule.compile.lower.scheduler import Scheduler


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

    def __init__(self, s: Scheduler, g: Group) -> None:
        self.s, self.g = s, g
        self.rows = [s.var(n) for n in g.rows]
        self.phases: list[Phase] = []
        self.at: dict[Term, int] = {}
        self.lanes_inside = g.inside or not (g.across or self._flat())

    def _flat(self) -> bool:
        """Whether every member is computed once for each row: lanes may run along the rows."""
        return all(len(m.along) == len([v for v in m.own if v.extent != 1]) for m in self.g.members)

    def body(self) -> list[Stmt]:
        """The statements."""
        s = self.s
        s.held = {}
        for m in self.g.members:
            self._add(m)
        s.held = {}
        out: list[Stmt] = []
        for p in self.phases:
            out += p.before
            inner: list[Stmt] = [*p.body, *p.last]
            for n, v in enumerate(reversed(p.axes)):
                mode: Mode = "lanes" if n == 0 and self.lanes_inside else "serial"
                inner = [For(v, tuple(inner), mode)]
            out += [*inner, *p.after]
        for n, v in enumerate(reversed(self.rows)):
            mode = "lanes" if n == 0 and not self.lanes_inside else "serial"
            out = [For(v, tuple(out), mode)]
        return shared(s, self.g, out)

    def _phase(self, m: Member, inner: tuple[Extent, ...]) -> int:
        least = 0
        for x, index in m.requests:
            other = self.g.find(x)
            if other is None or x not in self.at:
                continue
            same = other.reduces is None and self._same_place(m, other, index)
            same = same and self.phases[self.at[x]].inner == inner
            least = max(least, self.at[x] + (0 if same else 1))
        for x in self.s.before.get(m.term, []):  # read before it is overwritten
            least = max(least, self.at.get(x, 0))
        for i in range(least, len(self.phases)):
            if self.phases[i].inner == inner:
                return i
        self.phases.append(Phase(inner, [self.s.var(n) for n in inner]))
        return len(self.phases) - 1

    def _same_place(self, m: Member, other: Member, index: Index) -> bool:
        """Whether `m` reads `other` only where it is itself."""
        free = [v for a, v in enumerate(m.own) if a not in m.along and v.extent != 1]
        theirs = [a for a, v in enumerate(other.own) if a not in other.along and v.extent != 1]
        if len(free) != len(theirs):
            return False
        return all(runs_along(index, a, v) for a, v in zip(theirs, free, strict=True))

    def _add(self, m: Member) -> None:
        s = self.s
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
        s.memo = {}
        if m.reduces is not None:
            self._reduce(m, phase, tuple(index))
            return
        where = tuple(index)
        value = s.exprs.cast(op_rules.MAPS[type(m.term.op)](s, m.term, where), m.term.dtype)
        in_place = s.views[m.term].buffer.role == "state"
        local = s.local(m.term.dtype)  # computed once; expressions stay small
        phase.body.append(Let(local, value))
        value = s.exprs.local(local)
        (phase.last if in_place else phase.body).append(s.store(m.term, where, value))
        s.held[m.term] = lambda at: value if at == where else None

    def _reduce(self, m: Member, phase: Phase, index: Index) -> None:
        s, red = self.s, m.reduces
        assert red is not None
        e = s.exprs
        acc = s.local(red.dtype)
        phase.before.append(Let(acc, e.lit(identity(red.fold, red.dtype), red.dtype)))
        value = e.cast(s.element(m.term.args[0], index), red.dtype)
        phase.body.append(Into(acc, red.fold, value))
        total = s.local(m.term.dtype)
        phase.after.append(Let(total, e.cast(e.local(acc), m.term.dtype)))
        kept = [i for a, i in enumerate(index) if a not in red.axes]
        at = (
            tuple([ZERO if a in red.axes else i for a, i in enumerate(index)])
            if red.keepdims
            else tuple(kept)
        )
        if len(at) != len(m.term.shape):
            at = tuple([i for i in at if i != ZERO])
        phase.after.append(s.store(m.term, at, e.local(total)))
        s.held[m.term] = lambda _: e.local(total)
