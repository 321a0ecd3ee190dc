"""Kernels in the making: which terms are in one, and along which of its rows their axes run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Var
from chainrule.compile.loops.views import Index
from chainrule.compile.lower.op_rules import Reduction


@final
@dataclass(eq=False, slots=True)
class Member:
    """A term of a kernel. `lead` are its axes that are not 1, in order, and its own counters are
    `own`, one for each axis; axis a is along the kernel's row `along[a]`, if there.
    """

    term: Term
    own: tuple[Var, ...]
    requests: list[tuple[Term, Index]]
    along: dict[int, int]
    reduces: Reduction | None


@final
@dataclass(eq=False, slots=True)
class Group:
    """A kernel in the making."""

    number: int
    kind: str
    rows: list[Extent]
    members: list[Member]
    inside: bool = False
    """Whether lanes run along inner axes, because a reduction there needs them."""
    across: bool = False
    """Whether a reduction over outer axes needs lanes along the rows."""
    _known: dict[Term, Member] = field(default_factory=dict[Term, Member])

    def find(self, t: Term) -> Member | None:
        """The member that computes `t`, if one does; members are only ever added."""
        for m in self.members[len(self._known) :]:
            self._known[m.term] = m
        return self._known.get(t)


def kept_axes(m: Member) -> tuple[list[int], bool]:
    """The axes of `m` that are not reduced, without those of size 1; and whether a reduction runs
    along the last axis, along which elements usually are neighbours."""
    gone = m.reduces.axes if m.reduces is not None else ()
    wide = [a for a, v in enumerate(m.own) if v.extent != 1]
    axes = [a for a in wide if a not in gone]
    return axes, m.reduces is not None and (not wide or wide[-1] in gone)


def result_axis(member: Member, a: int) -> int:
    """Axis `a` of the space of `member` as an axis of its result."""
    red = member.reduces
    if red is None or red.keepdims:
        return a
    return a - len([x for x in red.axes if x < a])


def runs_along(index: Index, axis: int, var: Var | None) -> bool:
    """Whether an index runs along `var` at that axis."""
    return bool(index) and var is not None and index[axis] == Affine.of(var)


def mapping(m: Member, p: Member, index: Index) -> dict[int, int] | None:
    """By axis of `m` the row of the product that it runs along."""
    out: dict[int, int] = {}
    for a, row in p.along.items():
        found = [b for b, v in enumerate(m.own) if index[a] == Affine.of(v)]
        if len(found) != 1:
            return None
        out[found[0]] = row
    return out
