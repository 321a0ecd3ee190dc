"""A tape as families: loops over coordinates, and where each operand lies.

Leaves lie where `Recorded.spots` says, in the whole of their containers: which of these a tape
reads may depend on ints (`table[token]`), and is then a table.

Every operand of every unit goes through its map, which is checked against all of them; so what the
families say is what the tape does, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.scalars.gathers import Choice
from chainrule.compile.scalars.reroll.colours import CONSTANT, Members, families_of
from chainrule.compile.scalars.reroll.family import CONSTANTS, LEAVES, Families, Family, Run, Slot
from chainrule.compile.scalars.reroll.guides import Along, Free, Guide, Laid, MisfitError, Operand
from chainrule.compile.scalars.reroll.index_maps import Ints, Map, Table
from chainrule.compile.scalars.reroll.units import GATHER, LARGEST, Recorded, Unit, units_of


@final
@dataclass(slots=True)
class _Group:
    """Numbers of one colour: what they are called as a source, coordinates and places in memory."""

    source: int
    columns: Sequence[Ints]
    address: Ints


EACH = 12
"""Operations that there must be for each kind of them..."""
KINDS = 768
"""... of which so many are compiled in some seconds."""


def rolled(tape: Recorded, known: Families | None = None) -> Families | str:
    """The families of a tape. If there are none, or they are not worth it, why. Of
    `known` ones, of a tape like this, loops and maps are taken over as far as they fit.

    Sums whose lengths are no affine function of their coordinates are taken apart by length.
    """
    apart = {i + tape.base for i in known.apart} if known else set[int]()
    while True:
        roll = Roll(tape, Along(known.families) if known else Free(), apart)
        if roll.failed is None:
            return roll.made()
        if isinstance(roll.failed, str):
            return roll.failed
        if known is not None:
            return f"the known loops do not fit its {roll.failed.op}"
        if roll.failed.op == GATHER:
            return "an int chooses among numbers that are not computed alike"
        uneven = {u.place for u in roll.failed.units}
        if not roll.uneven or uneven <= apart:
            return f"no table that is small says where the operands of its {roll.failed.op} lie"
        apart |= uneven


def guided(tape: Recorded, guide: Guide, first: int) -> Families | str:
    """The families of a tape as a guide prescribes them, or why they do not fit; all of the
    containers of state lie `first` places after the beginning of all leaves."""
    try:
        roll = Roll(tape, guide, set(), first)
    except MisfitError as why:
        return str(why)
    if isinstance(roll.failed, str):
        return roll.failed
    return roll.made() if roll.failed is None else f"its {roll.failed.op} lies elsewhere"


@final
class Roll:
    """What is known while families are put together: by place its colour and its row in the group
    of that colour. `failed` are the first for which there is no map, or why there are no families.
    """

    def __init__(
        self, tape: Recorded, guide: Guide, apart: set[int], first: int | None = None
    ) -> None:
        self._guide = guide
        self._tape = tape
        self._apart = apart
        self._spots, self._room = tape.spots, tape.room
        if first is not None:
            self._spots = tape.whole.copy()
            self._spots[tape.given :] += first - tape.given
            self._room = tape.whole_room + first - tape.given
        self.families: list[Family] = []
        self.groups: list[_Group] = []
        self.chosen: dict[int, tuple[Ints, Choice]] = {}
        self.uneven = False
        """Whether the latest family's sums have lengths that are not affine."""
        self._colour = [CONSTANT] * tape.size
        self.row = np.zeros(tape.size, np.int64)
        self._take_leaves(tape)
        self.failed = self._roll(tape)

    def _take_leaves(self, tape: Recorded) -> None:
        """Take the leaves of a tape as groups, one for each array that they come from."""
        members: dict[Any, list[int]] = {}
        arrays = tape.arrays
        for place, (name, _) in enumerate(arrays):
            members.setdefault(name, []).append(place)
        for number, places in enumerate(members.values()):
            at = np.array([arrays[p][1] for p in places], np.int64).reshape(len(places), -1)
            self.groups.append(_Group(LEAVES, list(at.T), self._spots[places]))
            self.row[places] = np.arange(len(places))
            for p in places:
                self._colour[p] = number
        fixed = np.arange(tape.leaves, tape.base)
        self.row[fixed] = fixed - tape.leaves
        if tape.made:
            made = np.arange(tape.made)
            for p in range(tape.leaves, tape.leaves + tape.made):
                self._colour[p] = len(self.groups)
            self.groups.append(_Group(CONSTANTS, [made], made))
        self._constants = _Group(CONSTANTS, [], fixed - tape.leaves)

    def _roll(self, tape: Recorded) -> Members | str | None:
        """Put together all families."""
        most = min(KINDS, len(tape.code) // max(1, EACH))
        entries, first = tape.gathers.entries, len(self.groups)
        units = units_of(tape)
        found = families_of(units, entries, self._colour, first, most, self._apart)
        if found is None:
            why = "too few of each" if most < KINDS else "too many to compile"
            return f"its {len(tape.code):,} operations are of more than {most:,} kinds, {why}"
        return next((members for members in found if not self._add(members)), None)

    def made(self) -> Families:
        """All families."""
        ends = [(self._group_of(p), p) for p in self._tape.results]
        places = [(g.source, int(g.address[self.row[p]])) for g, p in ends]
        lines = frozenset([p - self._tape.base for p in self._apart])
        room = self._spots, self._room
        return Families(self.families, places, *room, apart=lines, chosen=self.chosen)

    def _group_of(self, place: int) -> _Group:
        """The group that a place belongs to."""
        return self._group(self._colour[place])

    def _group(self, colour: int) -> _Group:
        return self._constants if colour == CONSTANT else self.groups[colour]

    def _add(self, members: Members) -> bool:
        """Put together the family of these units; whether all its maps were found."""
        n = len(members.units)
        if members.op == GATHER:
            return self._gather(members)
        if members.op == LARGEST and len(members.runs) <= 2:
            self._sort_terms(members.units)
        counts = np.array(members.counts, np.int64)
        operands = [_operands(members, counts, r) for r in range(len(members.runs))]
        parts = list(zip(members.runs, operands, counts.T, strict=True))
        candidates = [x for part in parts for x in self._candidates(*part)]
        laid = self._guide.lay_out(len(self.families), members, candidates)
        runs = [self._run(r, laid.nest, members.need, *part) for r, part in enumerate(parts)]
        self.groups.append(_Group(len(self.families), laid.nest.columns, laid.address))
        self.row[[u.place for u in members.units]] = np.arange(n)
        found = [r for r in runs if r is not None]
        self._append(members, laid, found)
        return len(found) == len(runs)

    def _append(self, members: Members, laid: Laid, runs: Sequence[Run]) -> None:
        places = [u.place - self._tape.base for u in members.units]
        found = self._tape.lines[places].astype(np.int64)
        lines = np.unique(found[found[:, 0] > 0], axis=0)
        n = len(members.units)
        memory = laid.strides, laid.size
        self.families.append(Family(members.op, laid.nest, tuple(runs), *memory, n, lines))

    def _gather(self, members: Members) -> bool:
        """Put together a family of numbers that ints choose."""
        units = members.units
        gathers = self._tape.gathers
        which = [u.gather for u in units]
        entries = [gathers.entries[i] for i in which]
        groups = {
            id(g): g for g in [self._group_of(p) for p in {int(p) for e in entries for p in e}]
        }
        first = self.row[[e[0] for e in entries]]
        if len(groups) > 1:
            return False
        (group,) = groups.values()
        calls = np.unique(gathers.calls[which], return_inverse=True)[1]
        candidates = [*[c[first] for c in group.columns], calls]
        laid = self._guide.lay_out(len(self.families), members, candidates)
        table = Table(np.zeros(laid.size, np.int64), (*laid.strides, 0))
        at = [group.address[self.row[e]] for e in entries]
        table.values[laid.address] = [a[0] for a in at]
        self.chosen[id(table)] = laid.address, Choice(gathers.choice.index[which], at)
        slot = Slot(group.source, Map(0, (0,) * len(table.steps), table), group.source != CONSTANTS)
        run = Run(((slot,),), Map(1, (0,) * len(laid.nest.columns)), 1)
        self.groups.append(_Group(len(self.families), laid.nest.columns, laid.address))
        self.row[[u.place for u in units]] = np.arange(len(units))
        self._append(members, laid, [run])
        return True

    def _candidates(self, run: Any, terms: Sequence[Ints], count: Ints) -> list[Ints]:
        """The coordinates of the first operands of a run."""
        first = np.cumsum(count) - count
        out: list[Ints] = []
        for colours, places in zip(run, terms, strict=True):
            for s, c in enumerate(colours):
                rows = self.row[places[first, s]]
                out += [x[rows] for x in self._group(c).columns]
        return out

    def _sort_terms(self, units: Sequence[Unit]) -> None:
        """Put the terms of maxima, whose order does not matter, in that of their coordinates."""

        def stand(term: tuple[int, ...]) -> tuple[int, ...]:
            row = self.row[term[0]]
            return tuple([int(c[row]) for c in self._group_of(term[0]).columns])

        for u in units:
            u.terms[1:] = sorted(u.terms[1:], key=stand)

    def _run(
        self, r: int, nest: Any, need: int, run: Any, terms: Sequence[Ints], count: Ints
    ) -> Run | None:
        """A run's maps: along each unit's coordinates, and its repetitions."""
        number = len(self.families)
        times = self._guide.count(number, r, nest, count)
        if times is None:
            self.uneven = True
            return None
        owner = np.repeat(np.arange(len(count)), count)
        step = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        columns = [*[c[owner] for c in nest.columns], step]
        slots: list[tuple[Slot, ...]] = []
        for q, (colours, places) in enumerate(zip(run, terms, strict=True)):
            each: list[Slot] = []
            for s, c in enumerate(colours):
                group = self._group(c)
                y = group.address[self.row[places[:, s]]]
                found = self._guide.operand(Operand(number, r, q, s, group.source), columns, y)
                if found is None:
                    return None
                needed = group.source != CONSTANTS and bool(need >> s & 1)
                each.append(Slot(*found, needed))
            slots.append(tuple(each))
        return Run(tuple(slots), times[0], int(count.max()), times[1])


def _operands(members: Members, counts: Ints, r: int) -> list[Ints]:
    """Of each term of run r the places of its operands: a row for each unit and repetition."""
    period = len(members.runs[r])
    starts = sum(
        (len(run) * counts[:, i] for i, run in enumerate(members.runs[:r])),
        np.zeros(len(members.units), np.int64),
    ).tolist()
    times = counts[:, r].tolist()
    out: list[Ints] = []
    for q in range(period):
        rows: list[tuple[int, ...]] = []
        for u, start, n in zip(members.units, starts, times, strict=True):
            rows += u.terms[start + q : start + period * n : period]
        out.append(np.array(rows, np.int64))
    return out
