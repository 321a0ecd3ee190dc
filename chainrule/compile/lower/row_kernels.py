"""A kernel of rows: loops over the axes that its members share, and within a row phases.

What a phase computes it uses from registers; later phases read it from memory, a reduction's result
and numbers of the row from registers, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.accesses import accesses_of
from chainrule.compile.loops.collapse import interleave
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs, Var
from chainrule.compile.loops.functions import identity
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import For, Into, Let, Mode, Stmt
from chainrule.compile.loops.views import ZERO, Index, index_of, runs_along
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.plan import Group, Member, Plan


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
        self.by_columns = self._is_by_columns()
        self.lanes_inside = not self.by_columns and (g.inside or not (g.across or self._flat()))

    def _is_by_columns(self) -> bool:
        """Whether what is read or written is laid out by columns: neighbouring rows lie side by
        side."""
        columns = self.plan.memory.columns
        return any(
            t in columns for m in self.g.members for t in (m.term, *[x for x, _ in m.requests])
        )

    def _flat(self) -> bool:
        """Whether every member is computed once for each row: lanes may run along the rows."""
        return all(
            len(m.along) == len([v for v in m.counters if v.extent != 1]) for m in self.g.members
        )

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
        return share_memory(self.plan, self.builder.exprs, self.g, self._along_rows(out))

    def _along_rows(self, out: list[Stmt]) -> list[Stmt]:
        """Loops over the rows around what is done in each."""
        rows, exprs = self.rows, self.builder.exprs
        if (pair := self._row_and_head()) is not None:
            out = [interleave(exprs, *pair, out, independent=True)]
            return self.builder.nest([v for v in rows if v not in pair], out, "serial")
        if self.by_columns and self._flat():
            rows = [*rows[:-2], *reversed(rows[-2:])]
        for n, v in enumerate(reversed(rows)):
            mode = "lanes" if n == 0 and not self.lanes_inside else "serial"
            out = [For(v, tuple(out), mode, independent=True)]
        return out

    def _row_and_head(self) -> tuple[Var, Var] | None:
        """The counters of rows and of heads, where these are innermost in memory."""
        heads = self.plan.memory.heads
        for m in self.g.members:
            own = index_of(m.counters)
            for x, index in [(m.term, own) if m.reduces is None else (None, ()), *m.requests]:
                if x in heads and index:
                    at = [[i for a, i in m.along.items() if own[a] == index[n]] for n in (-2, -3)]
                    if all(len(found) == 1 for found in at):
                        (row,), (head,) = at
                        return self.rows[row], self.rows[head]
        return None

    def _phase(self, m: Member, inner: tuple[Extent, ...]) -> int:
        """The number of the first phase in which all is there that the member reads; made if there
        is none."""
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
        free = [v for a, v in enumerate(m.counters) if a not in m.along and v.extent != 1]
        theirs = [a for a, v in enumerate(other.counters) if a not in other.along and v.extent != 1]
        if len(free) != len(theirs):
            return False
        return all(runs_along(index, a, v) for a, v in zip(theirs, free, strict=True))

    def _add(self, m: Member) -> None:
        """Add a member to a phase of the row, or to a new one, and remember where its value is."""
        builder = self.builder
        free = [a for a, v in enumerate(m.counters) if a not in m.along and v.extent != 1]
        inner = tuple([m.counters[a].extent for a in free])
        number = self._phase(m, inner)
        phase = self.phases[number]
        self.at[m.term] = number
        index: list[Affine] = [ZERO] * len(m.counters)
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
        """Add a reduction: its start before the phase's loop, its fold, its result after it."""
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


# --- memory that two results of a kernel of rows share --------------------------------------------
# What is kept from one phase of a row to a later one (the exponentials of a softmax, say) needs no
# memory of its own if something that has its shape is computed from it there, at the same place:
# each element is overwritten when it has been read for the last time. So a row that is being worked
# on stays in the first cache, and less is written to memory.

_OWN = ("scratch", "result")


def share_memory(plan: Plan, exprs: Exprs, g: Group, body: list[Stmt]) -> list[Stmt]:
    """The kernel of `g`, with as little memory as can be between its phases."""
    members = {m.term for m in g.members}
    readers = {x: y for y in g.members for x, _ in y.requests}  # the last one of each
    uses: Uses | None = None
    shared: dict[Buffer, Buffer] = {}
    for m in g.members:
        old, last = plan.views[m.term].buffer, readers.get(m.term)
        if last is None or not _is_private(plan, members, m.term) or old in shared.values():
            continue
        new = plan.views[last.term].buffer
        alike = new.role in _OWN and new.dtype == old.dtype and new.size == old.size
        if not alike or new is old:
            continue
        uses = uses or Uses(body)
        if uses.can_share(old, new):
            uses.join(old, new)
            shared[old] = new
    return list(Renaming(buffers=shared, exprs=exprs).body(body)) if shared else body


def _is_private(plan: Plan, members: set[Term], t: Term) -> bool:
    """Whether nobody else knows of the memory of `t`: no other kernel, no copy that comes later,
    nothing that lies there."""
    memory = plan.memory
    buffer = memory.views[t].buffer
    return (
        buffer.role == "scratch"
        and members.issuperset(memory.readers.get(t, ()))
        and memory.terms_of_buffer[buffer] == (t,)
        and all(t is not x for x, _ in memory.delayed_copies)
    )


@final
@dataclass(frozen=True, slots=True)
class _Use:
    """Where in a kernel's order a place is used, in which loops, and by which statement."""

    number: int
    loops: tuple[For, ...]
    at: Affine
    store: bool


@final
class Uses:
    """Where a kernel uses which memory, by buffer and in order."""

    def __init__(self, body: Sequence[Stmt]) -> None:
        self._of: dict[Buffer, list[_Use]] = {}
        self._starts: dict[tuple[For, ...], int] = {}
        for n, (s, loops) in enumerate(_leaves(body, ())):
            self._starts.setdefault(loops, n)
            for x in accesses_of(s):
                self._of.setdefault(x.buffer, []).append(_Use(n, loops, x.at, x.writes))

    def join(self, old: Buffer, new: Buffer) -> None:
        """`new` is the memory of `old`, too."""
        found = [*self._of.pop(old, []), *self._of.get(new, [])]
        self._of[new] = sorted(found, key=lambda u: u.number)

    def can_share(self, old: Buffer, new: Buffer) -> bool:
        """Whether `new` can be the memory of `old`."""
        olds, news = self._of.get(old, []), self._of.get(new, [])
        first = [u for u in olds if u.store]
        if len(first) != 1 or len(olds) == 1 or len(news) != 1 or not news[0].store:
            return False  # stored more than once, never read, or in use already
        end = news[0]
        rows = {x.var for x, y in zip(first[0].loops, end.loops, strict=False) if x is y}
        start = self._starts[end.loops]
        return _covers(first[0].at, rows) == _covers(end.at, rows) and all(
            _same_row(u.at, end.at, rows)
            and (
                u.number < start
                or (u.loops == end.loops and u.at == end.at and u.number < end.number)
            )
            for u in olds
        )


def _leaves(body: Sequence[Stmt], loops: tuple[For, ...]) -> Iterator[tuple[Stmt, tuple[For, ...]]]:
    for s in body:
        if isinstance(s, For):
            yield from _leaves(s.body, (*loops, s))
        else:
            yield s, loops


def _covers(at: Affine, rows: set[Var]) -> tuple[object, frozenset[tuple[object, object]]]:
    """Which elements of its row a place runs over: where they begin, strides and sizes."""
    inner = [(c, v.extent if isinstance(v, Var) else v) for v, c in at.terms if v not in rows]
    return at.const, frozenset(inner)


def _same_row(a: Affine, b: Affine, rows: set[Var]) -> bool:
    return all(a.coefficient(v) == b.coefficient(v) for v in rows)
