"""Results that can be written where leaves are: a loop reads each of these numbers once, and then
nobody reads it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from chainrule.compile.scalars.reroll.family import LEAVES, Families, Family, Slot
from chainrule.compile.scalars.reroll.fusion import Groups
from chainrule.compile.scalars.reroll.index_maps import Map

Bounds = tuple[int, int]


@final
@dataclass(frozen=True, slots=True)
class Home:
    """Results from `start` to `stop` are to be where the leaves from `at` on are."""

    start: int
    stop: int
    at: int


def in_place(made: Families, homes: Sequence[Home]) -> Mapping[int, int]:
    """Families that can be written to their homes, with where these begin."""
    groups = Groups(made)
    group_of = {i: n for n, group in enumerate(groups.all) for i in group}
    found: dict[int, int] = {}
    for home in homes:
        wanted = made.results[home.start : home.stop]
        source = wanted[0][0] if wanted else LEAVES
        if source < 0 or source in found or len(groups.all[group_of[source]]) == 1:
            continue
        whole = [(source, k) for k in range(made.families[source].size)] == wanted
        if whole and _is_free(made, source, home, group_of):
            found[source] = home.at
    return found


def _is_free(made: Families, source: int, home: Home, group_of: Mapping[int, int]) -> bool:
    """Whether what is at its home is read by nothing but its loop, and loops before that."""
    mine = group_of[source]
    for i, family in enumerate(made.families):
        for slot, bounds in _slots(family):
            if slot.source != LEAVES or group_of[i] < mine or not _touches(slot, bounds, home):
                continue
            if group_of[i] > mine or not _is_at(slot, home.at):
                return False
    return True


def _slots(family: Family) -> Iterator[tuple[Slot, Sequence[Bounds]]]:
    """The operands, with the bounds of the counters that their places are computed from."""
    axes: list[Bounds] = []
    for axis in family.nest.axes:
        low, high = _bounds(axis.low, axes)
        axes.append((low, high + axis.extent - 1))
    for run in family.runs:
        for term in run.terms:
            for slot in term:
                yield slot, [*axes, (0, run.extent - 1)]


def _bounds(at: Map, counters: Sequence[Bounds]) -> Bounds:
    """The least and the largest number that a map without a table gives."""
    pairs = list(zip(at.coefficients, counters, strict=False))
    low = sum(min(c * first, c * last) for c, (first, last) in pairs)
    high = sum(max(c * first, c * last) for c, (first, last) in pairs)
    return at.const + low, at.const + high


def _touches(slot: Slot, bounds: Sequence[Bounds], home: Home) -> bool:
    """Whether an operand can be one of those leaves."""
    low, high = _bounds(slot.at, bounds)
    apart = high < home.at or low >= home.at + home.stop - home.start
    return slot.at.table is not None or not apart


def _is_at(slot: Slot, start: int) -> bool:
    """Whether it is the leaf of the same iteration, of those from `start` on."""
    first, *rest = slot.at.coefficients
    return slot.at.table is None and slot.at.const == start and first == 1 and not any(rest)
