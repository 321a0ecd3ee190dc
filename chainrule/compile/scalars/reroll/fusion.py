"""Fusion: families that are computed element by element, in one loop.

An update does the same to each parameter, op by op, each op a family. Written one after the other
their numbers would go through memory; in one loop they stay in registers, and only what is read
elsewhere is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from chainrule.compile.scalars.reroll.family import Families, Family, Slot
from chainrule.compile.scalars.reroll.units import GATHER, LARGEST


@final
class Groups:
    """Families in an order in which they can be computed: `all` are lists of their numbers, those
    of one list in one loop; `stored` are the families whose numbers are read elsewhere."""

    def __init__(self, made: Families) -> None:
        self._families = made.families
        self.all: list[list[int]] = []
        self._open: list[int] = []
        for i, family in enumerate(made.families):
            if not self._joins(family):
                if self._open and (_is_even(family) or self._reads_open(family)):
                    self._close()
                if not _is_even(family):
                    self.all.append([i])
                    continue
            self._open.append(i)
        if self._open:
            self._close()
        self.stored = {source for source, _ in made.results}
        for group in self.all:
            for i in group:
                sources = {s.source for s in _slots(made.families[i])}
                self.stored |= sources - set(group)

    def _close(self) -> None:
        self.all.append(self._open)
        self._open = []

    def _joins(self, family: Family) -> bool:
        """Whether it can be computed in the loop of the families that came last."""
        if not self._open or not _is_even(family):
            return False
        if family.nest.axes != self._families[self._open[0]].nest.axes:
            return False
        return all(s.source not in self._open or _is_own(s) for s in _slots(family))

    def _reads_open(self, family: Family) -> bool:
        return any(s.source in self._open for s in _slots(family))


def _slots(family: Family) -> Sequence[Slot]:
    return [s for r in family.runs for t in r.terms for s in t]


def _is_even(family: Family) -> bool:
    """Whether it has one loop, over all of its numbers, and no loop within."""
    if len(family.nest.axes) != 1 or family.op in (LARGEST, GATHER) or family.strides != (1,):
        return False
    axis = family.nest.axes[0]
    whole = axis.low.fixed and axis.low.const == 0 and axis.high.fixed
    runs = all(r.extent == 1 and r.count.fixed for r in family.runs)
    return whole and runs and axis.extent == axis.high.const == family.size


def _is_own(slot: Slot) -> bool:
    """Whether it is the number of the same iteration."""
    first, *rest = slot.at.coefficients
    return slot.at.table is None and slot.at.const == 0 and first == 1 and not any(rest)
