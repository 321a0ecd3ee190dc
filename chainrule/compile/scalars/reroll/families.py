"""A tape as families: loops over coordinates, and where each operand lies.

Leaves lie where `Recorded.spots` says, in the whole of their containers: which of these a tape
reads may depend on ints (`table[token]`), and is then a table.

Every operand of every unit goes through its map, which is checked against all of them; so what the
families say is what the tape does, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, final

import numpy as np

from chainrule.compile.scalars.gathers import Choice
from chainrule.compile.scalars.reroll.colours import CONSTANT, Members, families_of
from chainrule.compile.scalars.reroll.coordinates import Nest, nest_of, ranked
from chainrule.compile.scalars.reroll.family import CONSTANTS, LEAVES, Families, Family, Run, Slot
from chainrule.compile.scalars.reroll.index_maps import Ints, Map, Table, affine, fitted, refitted
from chainrule.compile.scalars.reroll.units import GATHER, LARGEST, Recorded, Unit, units_of

ROOM = 4
"""A family's memory may be so many times what its units need: half of a triangle is empty."""


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
        roll = _Roll(tape, known)
        most = min(KINDS, len(tape.code) // max(1, EACH))
        entries, first = tape.gathers.entries, len(roll.groups)
        found = families_of(units_of(tape), entries, roll.colour, first, most, apart)
        if found is None:
            why = "too few of each" if most < KINDS else "too many to compile"
            return f"its {len(tape.code):,} operations are of more than {most:,} kinds, {why}"
        failed = next((members for members in found if not roll.add(members)), None)
        if failed is None:
            ends = [(roll.group_of(p), p) for p in tape.results]
            places = [(g.source, int(g.address[roll.row[p]])) for g, p in ends]
            lines = frozenset([p - tape.base for p in apart])
            return Families(roll.families, places, lines, roll.chosen)
        if known is not None:
            return f"the known loops do not fit its {failed.op}"
        if failed.op == GATHER:
            return "an int chooses among numbers that are not computed alike"
        uneven = {u.place for u in failed.units}
        if not roll.uneven or uneven <= apart:
            return f"no table that is small says where the operands of its {failed.op} lie"
        apart |= uneven


@final
class _Roll:
    """What is known while families are put together: by place its colour and its row in the group
    of that colour."""

    def __init__(self, tape: Recorded, known: Families | None) -> None:
        self._known = known.families if known else []
        self.families: list[Family] = []
        self.groups: list[_Group] = []
        self._gathers = tape.gathers
        self._lines, self._base = tape.lines, tape.base
        self.chosen: dict[int, tuple[Ints, Choice]] = {}
        self.uneven = False
        """Whether the latest family's sums have lengths that are not affine."""
        self.colour = [CONSTANT] * tape.size
        self.row = np.zeros(tape.size, np.int64)
        members: dict[Any, list[int]] = {}
        arrays = tape.arrays
        for place, (name, _) in enumerate(arrays):
            members.setdefault(name, []).append(place)
        for number, places in enumerate(members.values()):
            at = np.array([arrays[p][1] for p in places], np.int64).reshape(len(places), -1)
            self.groups.append(_Group(LEAVES, list(at.T), tape.spots[places]))
            self.row[places] = np.arange(len(places))
            for p in places:
                self.colour[p] = number
        fixed = np.arange(tape.leaves, tape.base)
        self.row[fixed] = fixed - tape.leaves
        if tape.made:
            made = np.arange(tape.made)
            for p in range(tape.leaves, tape.leaves + tape.made):
                self.colour[p] = len(self.groups)
            self.groups.append(_Group(CONSTANTS, [made], made))
        self._constants = _Group(CONSTANTS, [], fixed - tape.leaves)

    def group_of(self, place: int) -> _Group:
        """The group that a place belongs to."""
        return self._group(self.colour[place])

    def _group(self, colour: int) -> _Group:
        return self._constants if colour == CONSTANT else self.groups[colour]

    def add(self, members: Members) -> bool:
        """Put together the family of these units; whether all its maps were found."""
        n = len(members.units)
        if members.op == GATHER:
            return self._gather(members.units)
        if members.op == LARGEST and len(members.runs) <= 2:
            self._sort_terms(members.units)
        counts = np.array(members.counts, np.int64)
        operands = [_operands(members, counts, r) for r in range(len(members.runs))]
        parts = list(zip(members.runs, operands, counts.T, strict=True))
        candidates = [x for part in parts for x in self._candidates(*part)]
        like = self._like(members)
        nest, sizes = _laid_out(nest_of(candidates, n, like.nest if like else None), n)
        again = like is not None and like.nest.axes == nest.axes
        forms = like.runs if like and again else [None] * len(members.runs)
        runs = [
            self._run(nest, members.need, *part, form)
            for part, form in zip(parts, forms, strict=True)
        ]
        strides = _strides(sizes)
        address = _address(nest, strides, n)
        self.groups.append(_Group(len(self.families), nest.columns, address))
        self.row[[u.place for u in members.units]] = np.arange(n)
        found = [r for r in runs if r is not None]
        lines = self._lines_of(members.units)
        self.families.append(Family(members.op, nest, tuple(found), strides, prod(sizes), n, lines))
        return len(found) == len(runs)

    def _lines_of(self, units: Sequence[Unit]) -> Ints:
        """The lines that compute these."""
        found = self._lines[[u.place - self._base for u in units]].astype(np.int64)
        return np.unique(found[found[:, 0] > 0], axis=0)

    def _gather(self, units: Sequence[Unit]) -> bool:
        """Put together a family of numbers that ints choose."""
        n = len(units)
        which = [u.gather for u in units]
        entries = [self._gathers.entries[i] for i in which]
        groups = {
            id(g): g for g in [self.group_of(p) for p in {int(p) for e in entries for p in e}]
        }
        first = self.row[[e[0] for e in entries]]
        if len(groups) > 1:
            return False
        (group,) = groups.values()
        calls = np.unique(self._gathers.calls[which], return_inverse=True)[1]
        candidates = [*[c[first] for c in group.columns], calls]
        nest, sizes = _laid_out(nest_of(candidates, n), n)
        strides, size = _strides(sizes), prod(sizes)
        address = _address(nest, strides, n)
        table = Table(np.zeros(size, np.int64), (*strides, 0))
        at = [group.address[self.row[e]] for e in entries]
        table.values[address] = [a[0] for a in at]
        self.chosen[id(table)] = address, Choice(self._gathers.choice.index[which], at)
        slot = Slot(group.source, Map(0, (0,) * len(table.steps), table), group.source != CONSTANTS)
        run = Run(((slot,),), Map(1, (0,) * len(nest.columns)), 1)
        self.groups.append(_Group(len(self.families), nest.columns, address))
        self.row[[u.place for u in units]] = np.arange(n)
        lines = self._lines_of(units)
        self.families.append(Family(GATHER, nest, (run,), strides, size, n, lines))
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

    def _like(self, members: Members) -> Family | None:
        """The known family in the place of these."""
        n = len(self.families)
        if n >= len(self._known):
            return None
        f = self._known[n]
        shape = [[len(t) for t in r.terms] for r in f.runs]
        wanted = [[len(t) for t in r] for r in members.runs]
        alike = f.op == members.op and f.units == len(members.units) and shape == wanted
        return f if alike else None

    def _sort_terms(self, units: Sequence[Unit]) -> None:
        """Put the terms of maxima, whose order does not matter, in that of their coordinates."""

        def stand(term: tuple[int, ...]) -> tuple[int, ...]:
            row = self.row[term[0]]
            return tuple([int(c[row]) for c in self.group_of(term[0]).columns])

        for u in units:
            u.terms[1:] = sorted(u.terms[1:], key=stand)

    def _run(
        self, nest: Nest, need: int, run: Any, terms: Sequence[Ints], count: Ints, like: Run | None
    ) -> Run | None:
        """A run's maps: along each unit's coordinates, and its repetitions; in the forms of the run
        that it is to be like."""
        times = affine(nest.columns, count)
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
                form = like.terms[q][s].at if like else None
                at = (form and refitted(form, columns, y)) or fitted(columns, y)
                if at is None:
                    return None
                needed = group.source != CONSTANTS and bool(need >> s & 1)
                each.append(Slot(group.source, at, needed))
            slots.append(tuple(each))
        return Run(tuple(slots), times, int(count.max()))


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


def _laid_out(nest: Nest, n: int) -> tuple[Nest, tuple[int, ...]]:
    """Coordinates and the sides of the box that they span: by rank if that is mostly empty."""
    sizes = tuple([int(c.max()) + 1 for c in nest.columns])
    if prod(sizes) <= ROOM * n:
        return nest, sizes
    return ranked(n), (n,)


def _address(nest: Nest, strides: Sequence[int], n: int) -> Ints:
    """Where each of n units lies."""
    pairs = zip(strides, nest.columns, strict=True)
    return sum((s * c for s, c in pairs), np.zeros(n, np.int64))


def _strides(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple([prod(sizes[i + 1 :]) for i in range(len(sizes))])
