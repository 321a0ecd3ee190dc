"""What shares a kernel: a term joins the kernel of what it reads, or opens one of its own.

Notation: `g` a kernel's terms so far; `m` the term that may join them, and what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import final

from chainrule.compile.graph.sizes import Extent, product, typical
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops import views
from chainrule.compile.loops.expressions import Affine, Var
from chainrule.compile.loops.views import Index, index_of, runs_along
from chainrule.compile.lower import materialize, memory_plan, ordering
from chainrule.compile.lower.elements import Inliner
from chainrule.compile.lower.materialize import is_product
from chainrule.compile.lower.op_rules import is_map, is_scan, is_scatter, reduction
from chainrule.compile.lower.plan import Group, Kind, Member, MemoryPlan
from chainrule.engine.op import Pick
from chainrule.ops.shapes.joining import Concat

MOST = 64
"""Terms in a kernel of rows: what LLVM does with one grows faster than the kernel."""
NEAR = 32
"""How many kernels back a term looks for company."""


@final
class Fusion:
    """Puts the realized terms of a program into groups, one after the other. `is_call` says which
    products are calls, `kind` what kernel has a term that shares none."""

    def __init__(
        self, memory: MemoryPlan, is_call: Callable[[Term], bool], kind: Callable[[Term], Kind]
    ) -> None:
        self.groups: list[Group] = []
        self.group_of: dict[Term, int] = {}
        self._members: dict[Term, Member] = {}
        self._memory = memory
        self._elements = Inliner(memory.views, memory.patterns)
        for t in memory.order:
            if isinstance(t.op, Pick):
                self.group_of[t] = self.group_of[t.args[0]]
            elif isinstance(t.op, Concat) and is_map(t):
                self._concatenation(t)
            elif is_product(t):
                self._product(t, "gemm" if is_call(t) else "product")
            elif is_map(t) or reduction(t) is not None:
                self._place(self._member(t))
            else:
                self._open(Group(_kind(t) or kind(t), (Member(t),)))

    def _open(self, g: Group) -> None:
        (m,) = g.members
        self.group_of[m.term], self._members[m.term] = len(self.groups), m
        self.groups.append(g)

    def _concatenation(self, t: Term) -> None:
        """A concatenation whose parts are in place is there when the last of them is."""
        if memory_plan.operands_to_copy(self._memory.views, t):
            self._open(Group("concat", (Member(t),)))
        else:
            sources = [views.source(a) for a in t.args]
            self.group_of[t] = max([self.group_of[x] for x in sources if x in self.group_of])

    def _product(self, t: Term, kind: Kind) -> None:
        wide = [a for a, n in enumerate(t.shape) if n != 1]
        m = Member(
            t, _counters(t.shape), along=MappingProxyType({a: i for i, a in enumerate(wide)})
        )
        self._open(Group(kind, (m,), tuple([t.shape[a] for a in wide])))

    def _member(self, t: Term) -> Member:
        """`t`, and where it reads what."""
        red, own, elements = reduction(t), _counters(materialize.space(t)), self._elements
        elements.forget()
        at = index_of(own)
        elements.element(t.args[0], at) if red else elements.computed(t, at)
        return Member(t, own, tuple(elements.requests), red)

    def _place(self, m: Member) -> None:
        """Find a kernel for `m`."""
        waits = [x for x, _ in m.requests] + [*self._memory.waits_for.get(m.term, ())]
        last = max([self.group_of[x] for x in waits if x in self.group_of], default=-1)
        axes, inside = kept_axes(m)
        for number in self._candidates(m, [m.counters[a].extent for a in axes], last):
            g = self.groups[number]
            join = self._join_product if g.kind == "product" else self._join_rows
            joined = join(number, g, m)
            if joined is not None:
                self.groups[number], self.group_of[m.term] = joined, number
                self._members |= {x.term: x for x in joined.members}
                return
        m = replace(m, along=MappingProxyType({a: i for i, a in enumerate(axes)}))
        rows, folds = tuple([m.counters[a].extent for a in axes]), m.reduces is not None
        self._open(Group("rows", (m,), rows, inside, folds and not inside))

    def _candidates(self, m: Member, rows: Sequence[Extent], last: int) -> list[int]:
        """The kernel of the last term that `m` reads, then later kernels that share a read with
        `m`. Those must go over the same rows, or over all of the same elements. Single numbers are
        computed together, whatever they read."""
        mine = self._sources(m.term)
        first = [last] if last >= 0 else []
        later = range(last + 1, len(self.groups))[-NEAR:]
        return first + [
            n for n in later
            if (g := self.groups[n]).kind == "rows"
            and any(
                _are_numbers(x, m) or self._reads_alike(x, m, mine, [*g.rows] == rows)
                for x in g.members
            )
        ]  # fmt: skip

    def _reads_alike(self, x: Member, m: Member, mine: set[Term], same_rows: bool) -> bool:
        """Whether `x` reads something that `m` reads, which is `mine`. Of other rows than those of
        `m` it is as much as there are elements: a fold and a map then pass through it once."""
        shared = mine & self._sources(x.term)
        if same_rows or not shared:
            return bool(shared)
        space = _wide(x.counters)
        return space == _wide(m.counters) and any(
            product(t.shape) == product(space) for t in shared
        )

    def _sources(self, t: Term) -> set[Term]:
        """What `t` reads in memory."""
        return {x for x in self._memory.reads[t] if x.shape}

    def _join_rows(self, number: int, g: Group, m: Member) -> Group | None:
        """`g` with `m`, if it can be one of them."""
        if g.kind != "rows" or len(g.members) >= MOST:
            return None
        axes, inside = kept_axes(m)
        common = _common_rows(g, m, axes, inside)
        if common is None:
            return None
        m = replace(m, along=MappingProxyType({a: i for i, a in enumerate(axes[:common])}))
        if not self._reads_own_row(number, m, common) or not self._safe(number, g, m):
            return None
        if self._waits_for_columns(number, m):
            return None
        members = g.members
        if common < len(g.rows):
            members = tuple([_within(x, common) for x in members])
        return Group(
            "rows", (*members, m), g.rows[:common],
            g.inside or inside, g.across or (m.reduces is not None and not inside),
        )  # fmt: skip

    def _join_product(self, number: int, g: Group, m: Member) -> Group | None:
        """The product whose kernel also computes `m`, element by element; None if none fits."""
        if m.reduces is not None:
            return None
        along: dict[int, int] = {}
        for x, index in m.requests:
            if (other := self._find(number, x)) is not None and index:
                found = mapping(m, other, index)
                if found is None:
                    return None
                along = found
        wide = [a for a, v in enumerate(m.counters) if v.extent != 1]
        if sorted(along) != wide or len(along) != len(g.rows):
            return None
        if any(m.counters[a].extent != g.rows[i] for a, i in along.items()):
            return None  # a part of the product only
        m = replace(m, along=MappingProxyType(along))
        if not self._reads_own_row(number, m, len(g.rows)) or not self._safe(number, g, m):
            return None
        return replace(g, members=(*g.members, m))

    def _find(self, number: int, t: Term) -> Member | None:
        """The member of a group that computes `t`, if one does."""
        return self._members.get(t) if self.group_of.get(t) == number else None

    def _reads_own_row(self, number: int, m: Member, rows: int) -> bool:
        """Whether `m` reads the members of its group only in its own row."""
        mine = {i: m.counters[a] for a, i in m.along.items()}
        for x, index in m.requests:
            if self.group_of.get(x) != number:
                continue
            other = self._members.get(x)
            if other is None:
                return False  # put together of members, each in a phase of its own
            if not index and x.shape:
                return False
            shared = [(a, i) for a, i in other.along.items() if i < rows]
            if len(shared) < rows or any(
                not runs_along(index, result_axis(other, a), mine.get(i)) for a, i in shared
            ):
                return False
        return True

    def _waits_for_columns(self, number: int, m: Member) -> bool:
        """Whether `m` reads columns that its kernel has just written, and folded, for each row. It
        would wait for each of them to be in the cache: it is another kernel's, which comes to them
        when other columns have been written."""
        mine = [x for x, _ in m.requests if self._find(number, x) is not None]
        folded = {x for y in mine if self._members[y].reduces for x, _ in self._members[y].requests}
        return any(x in self._memory.columns and x in folded for x in mine)

    def _safe(self, number: int, g: Group, m: Member) -> bool:
        """Whether `m` overwrites nothing that another member still reads elsewhere."""
        view = self._memory.views[m.term]
        for x in self._memory.waits_for.get(m.term, ()):
            if self.group_of.get(x) != number:
                continue
            other = self._members.get(x)
            if other is None or other.reduces is not None or len(m.along) != len(g.rows):
                return False
            if is_product(x) or len(other.along) != len(m.along):
                return False
            mine = ordering.read_range(view, m.term.shape, plain=True)
            reads = self._memory.reads_at[x]
            if any(r.meets(mine) and not (r.plain and r.view == view) for r in reads):
                return False
        return True


def _kind(t: Term) -> Kind | None:
    return "scatter" if is_scatter(t) else "scan" if is_scan(t) else None


def _counters(shape: Sequence[Extent]) -> tuple[Var, ...]:
    return tuple([Var(f"m{a}", n) for a, n in enumerate(shape)])


def _wide(own: Sequence[Var]) -> list[Extent]:
    return [v.extent for v in own if v.extent != 1]


def _common_rows(g: Group, m: Member, axes: Sequence[int], inside: bool) -> int | None:
    """How many of the rows of `g` `m` shares with it, None if not enough."""
    own = [m.counters[a].extent for a in axes]
    common = 0
    while common < min(len(own), len(g.rows)) and own[common] == g.rows[common]:
        common += 1
    same = len(own) == len(g.rows) == common
    if m.reduces is None:
        fits = (same or not g.across) and (common == len(g.rows) or not g.inside)
    elif inside:
        fits = not g.across and common == len(own) and (common == len(g.rows) or not g.inside)
    else:
        fits = not g.inside and same
    if not fits:
        return None
    if not (g.inside or inside) and not same:
        rest = [product(g.rows[common:]), product(own[common:])]
        if common == 0 or min(map(typical, rest)) < 8:
            return None
    return common


def _within(m: Member, rows: int) -> Member:
    """`m` in a group of so many rows."""
    return replace(m, along=MappingProxyType({a: i for a, i in m.along.items() if i < rows}))


def _are_numbers(x: Member, m: Member) -> bool:
    """Whether both are maps of single numbers."""
    return not (x.counters or m.counters)


def kept_axes(m: Member) -> tuple[list[int], bool]:
    """The axes of `m` that are not reduced, without those of size 1; and whether a reduction runs
    along the last axis. Along that one elements are usually contiguous."""
    gone = m.reduces.axes if m.reduces is not None else ()
    wide = [a for a, v in enumerate(m.counters) if v.extent != 1]
    axes = [a for a in wide if a not in gone]
    return axes, m.reduces is not None and (not wide or wide[-1] in gone)


def result_axis(member: Member, a: int) -> int:
    """Axis `a` of the space of `member` as an axis of its result."""
    red = member.reduces
    if red is None or red.keepdims:
        return a
    return a - len([x for x in red.axes if x < a])


def mapping(m: Member, p: Member, index: Index) -> dict[int, int] | None:
    """By axis of `m` the row of the product that it runs along."""
    out: dict[int, int] = {}
    for a, row in p.along.items():
        found = [b for b, v in enumerate(m.counters) if index[a] == Affine.of(v)]
        if len(found) != 1:
            return None
        out[found[0]] = row
    return out
