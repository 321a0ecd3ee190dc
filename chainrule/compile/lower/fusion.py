"""What shares a kernel: a term joins the kernel of what it reads, or opens one of its own.

Notation: `g` a kernel that is put together; `m` the term that may join it, and what it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.compile.graph.sizes import product, typical
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops import views
from chainrule.compile.loops.expressions import Affine
from chainrule.compile.loops.views import ZERO
from chainrule.compile.lower import materialize, memory_plan, op_rules, read_places
from chainrule.compile.lower.kernel_group import (
    Group,
    Member,
    kept_axes,
    mapping,
    result_axis,
    runs_along,
)
from chainrule.compile.lower.materialize import is_product
from chainrule.compile.lower.op_rules import reduction

if TYPE_CHECKING:
    from chainrule.compile.lower.scheduler import Scheduler


MOST = 64
"""Terms in a kernel of rows: what LLVM does with one grows faster than the kernel."""
NEAR = 32
"""How many kernels back a term looks for company."""


def member(s: Scheduler, t: Term) -> Member:
    """`t`, and where it reads what."""
    red = reduction(t)
    own = tuple([s.var(n) for n in materialize.space(t)])
    s.requests = []
    s.memo = {}
    at = tuple([ZERO if v.extent == 1 else Affine.of(v) for v in own])
    s.element(t.args[0], at) if red else op_rules.MAPS[type(t.op)](s, t, at)
    return Member(t, own, list(dict.fromkeys(s.requests)), {}, red)


def place(s: Scheduler, m: Member) -> None:
    """Find a kernel for `m`."""
    waits = [s.group_of[x].number for x, _ in m.requests if x in s.group_of]
    waits += [s.group_of[x].number for x in s.before.get(m.term, []) if x in s.group_of]
    last = max(waits, default=-1)
    for g in _candidates(s, m, last):
        if _join(s, g, m):
            s.group_of[m.term] = g
            return
    _opened(s, m)


def _candidates(s: Scheduler, m: Member, last: int) -> list[Group]:
    """The kernel of the last term that `m` reads; then later ones that do as much and read
    something that `m` reads, too."""
    first = [s.groups[last]] if last >= 0 else []
    mine = _sources(s, m.term)
    rows = [m.own[a].extent for a in kept_axes(m)[0]]
    later = [
        g
        for g in s.groups[last + 1 :][-NEAR:]
        if g.kind == "rows" and g.rows == rows
        and any(not mine.isdisjoint(_sources(s, x.term)) for x in g.members)
    ]  # fmt: skip
    return [*first, *later]


def _sources(s: Scheduler, t: Term) -> set[Term]:
    """What `t` reads in memory."""
    return {x for x in s.reads[t] if x.shape}


def _opened(s: Scheduler, m: Member) -> None:
    axes, inside = kept_axes(m)
    g = Group(len(s.groups), "rows", [m.own[a].extent for a in axes], [m])
    if m.reduces is not None:
        g.inside, g.across = inside, not inside
    m.along = {a: i for i, a in enumerate(axes)}
    s.groups.append(g)
    s.group_of[m.term] = g


def joined(s: Scheduler, t: Term) -> None:
    """A concatenation whose parts are in place is there when the last of them is."""
    if memory_plan.unplaced(s, t):
        fixed(s, "concat", t)
        return
    groups = [s.group_of[x] for a in t.args if (x := views.source(a)) in s.group_of]
    s.group_of[t] = max(groups, key=lambda g: g.number)


def fixed(s: Scheduler, kind: str, t: Term) -> None:
    """A kernel for `t` alone."""
    g = Group(len(s.groups), kind, [], [Member(t, (), [], {}, None)])
    s.groups.append(g)
    s.group_of[t] = g


def _join(s: Scheduler, g: Group, m: Member) -> bool:
    """Whether `m` became a member of `g`."""
    if g.kind == "product":
        return _join_product(s, g, m)
    if g.kind != "rows" or len(g.members) >= MOST:
        return False
    axes, inside = kept_axes(m)
    own = [m.own[a].extent for a in axes]
    common = 0
    while common < min(len(own), len(g.rows)) and own[common] == g.rows[common]:
        common += 1
    if m.reduces is None:
        if g.across and not (len(own) == len(g.rows) == common):
            return False
        if g.inside and common < len(g.rows):
            return False
    elif inside:
        if g.across or common < len(own) or (g.inside and common < len(g.rows)):
            return False
    elif g.inside or not (len(own) == len(g.rows) == common):
        return False
    if not (g.inside or inside) and common < max(len(own), len(g.rows)):
        if common == 0:
            return False
        rest = [product(g.rows[common:]), product(own[common:])]
        if min(map(typical, rest)) < 8:
            return False
    along = {a: i for i, a in enumerate(axes[:common])}
    if not _aligned(s, g, m, along, common) or not _safe(s, g, m, along):
        return False
    m.along = along
    if common < len(g.rows):
        g.rows = g.rows[:common]
        for x in g.members:
            x.along = {a: i for a, i in x.along.items() if i < common}
    g.inside = g.inside or (m.reduces is not None and inside)
    g.across = g.across or (m.reduces is not None and not inside)
    g.members.append(m)
    return True


def _join_product(s: Scheduler, g: Group, m: Member) -> bool:
    if m.reduces is not None:
        return False
    along: dict[int, int] = {}
    for x, index in m.requests:
        if (member := g.find(x)) is not None and index:
            found = mapping(m, member, index)
            if found is None:
                return False
            along = found
    wide = [a for a, v in enumerate(m.own) if v.extent != 1]
    if sorted(along) != wide or len(along) != len(g.rows):
        return False
    if any(m.own[a].extent != g.rows[i] for a, i in along.items()):
        return False  # a part of the product only
    if not _aligned(s, g, m, along, len(g.rows)) or not _safe(s, g, m, along):
        return False
    m.along = along
    g.members.append(m)
    return True


def _aligned(s: Scheduler, g: Group, m: Member, along: dict[int, int], rows: int) -> bool:
    """Whether `m` reads the members of `g` only in its own row."""
    mine = {i: m.own[a] for a, i in along.items()}
    for x, index in m.requests:
        member = g.find(x)
        if member is None:
            if s.group_of.get(x) is g:
                return False  # put together of members, each in a phase of its own
            continue
        if not index and x.shape:
            return False
        if [
            i
            for a, i in member.along.items()
            if i < rows and not runs_along(index, result_axis(member, a), mine.get(i))
        ]:
            return False
        if len([i for i in member.along.values() if i < rows]) < rows:
            return False
    return True


def _safe(s: Scheduler, g: Group, m: Member, along: dict[int, int]) -> bool:
    """Whether `m` overwrites nothing that another member still reads elsewhere."""
    view = s.views[m.term]
    for x in s.before.get(m.term, []):
        if s.group_of.get(x) is not g:
            continue
        other = g.find(x)
        if other is None or other.reduces is not None or len(along) != len(g.rows):
            return False
        if is_product(x) or len(other.along) != len(along):
            return False
        mine = read_places.touched(view, m.term.shape, plain=True)
        if any(r.meets(mine) and not (r.plain and r.view == view) for r in s.reads_at[x]):
            return False
    return True
