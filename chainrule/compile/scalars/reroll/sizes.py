"""One program for several sizes: lists of another length need no other loops.

Two tapes of a function often have the same families, but for how far their loops go. A `Frame` is
what they have in common: ends of loops that differ are `sizes`, constants that differ `parameters`,
both of which a run is given. Memory has room for longer lists, so that where an operand lies is the
same map for all of them. A further tape is compared with the frame, number by number: what fits
runs the same code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, final

import numpy as np

from chainrule.compile.scalars.reroll.colours import Members
from chainrule.compile.scalars.reroll.coordinates import Axis, Nest, spans, tell_apart
from chainrule.compile.scalars.reroll.families import guided
from chainrule.compile.scalars.reroll.family import (
    CONSTANTS,
    PARAMETERS,
    Families,
    Family,
    Run,
    Sizes,
    Slot,
)
from chainrule.compile.scalars.reroll.guides import (
    Guide,
    Laid,
    MisfitError,
    Operand,
    address_of,
    is_like,
)
from chainrule.compile.scalars.reroll.index_maps import (
    Ints,
    Map,
    fitted,
    refitted,
    tabulated,
    weighted,
)
from chainrule.compile.scalars.reroll.units import GATHER, Recorded

SPACE = 64
"""A family's memory for all sizes may be so many times what its units need."""

Place = tuple[int, int, int, int]
"""Which operand: family, run, term, and which of the term."""


@final
class _Sized(Guide):
    """Lets a tape have the families of `like`, for sizes that are found. These are laid out in
    boxes of these `sides`, or as the tape needs it; maps are theirs, if they have some."""

    def __init__(
        self,
        tape: Recorded,
        like: Sequence[Family],
        sides: Sequence[tuple[int, ...]] = (),
        *,
        mapped: bool = False,
    ) -> None:
        self._like = like
        self._sides = sides
        self._mapped = mapped
        self._constants = tape.constant_data
        self.constants = len(tape.constant_data)
        """How many there are."""
        self._box: tuple[int, ...] = ()
        self.numbers: dict[int, int] = {}
        """Each size of this tape."""
        self.literals: dict[Place, float] = {}
        """The operands that are one constant."""

    def lay_out(self, number: int, members: Members, candidates: Sequence[Ints]) -> Laid:
        """The loops of the family in this place, over the same coordinates."""
        n = len(members.units)
        if number >= len(self._like) or not is_like(self._like[number], members):
            raise MisfitError(f"its {members.op} has no counterpart")
        like = self._like[number].nest
        columns = _columns(like, candidates, n)
        if columns is None or (n > 1 and not tell_apart([*columns, np.zeros(n, np.int64)])):
            raise MisfitError(f"its {members.op} is computed in other loops")
        axes = self._axes(columns, like.axes)
        if axes is None:
            raise MisfitError(f"the loops of its {members.op} end elsewhere")
        nest = Nest(tuple(columns), axes, like.chosen, like.steps)
        self._box = tuple([int(c.max()) + 1 for c in columns])
        if self._sides:
            if any(a > b for a, b in zip(self._box, self._sides[number], strict=True)):
                raise MisfitError(f"its {members.op} takes more room")
            self._box = self._sides[number]
        return Laid(nest, self._box, address_of(nest, self._box, n))

    def _axes(self, columns: Sequence[Ints], like: Sequence[Axis]) -> tuple[Axis, ...] | None:
        """The loops, with how far they go."""
        out: list[Axis] = []
        for axis, (heads, low, high) in zip(reversed(like), spans(columns), strict=False):
            if not self._is(axis.low, heads, low) or not self._is(axis.high, heads, high):
                return None
            extent = int((high - low).max())
            if axis.room and extent > axis.room:
                return None
            out.append(replace(axis, extent=extent))
        return tuple(reversed(out)) if len(out) == len(like) else None

    def _is(self, m: Map, columns: Sequence[Ints], y: Ints) -> bool:
        """Whether `y` is what a map says, which tells its size."""
        rest = y - m.const - weighted(m.coefficients, columns, len(y))
        if m.size is not None and len(rest):
            self.numbers[m.size] = int(rest[0])
            rest = rest - rest[0]
        return not rest.any()

    def count(self, number: int, r: int, nest: Nest, count: Ints) -> tuple[Map, int] | None:
        """The map of the family in this place."""
        run = self._like[number].runs[r]
        if not self._is(run.count, nest.columns, count):
            return None
        return None if run.room and int(count.max()) > run.room else (run.count, run.room)

    def operand(self, of: Operand, columns: Sequence[Ints], y: Ints) -> tuple[int, Map] | None:
        """The map of the operand in this place; a constant may be another one."""
        run = self._like[of.family].runs[of.r]
        place = of.family, of.r, of.q, of.s
        known = run.terms[of.q][of.s]
        source = CONSTANTS if known.source == PARAMETERS else known.source
        if source != of.source:
            return None
        if source == CONSTANTS and (y == y[0]).all():
            self.literals[place] = float(self._constants[y[0]])
            if not self._mapped:
                return source, Map(int(y[0]), (0,) * len(columns))
            if known.source == PARAMETERS:
                return PARAMETERS, known.at
            return (source, Map(int(y[0]), known.at.coefficients)) if known.literal else None
        if self._mapped:
            found = None if known.source == PARAMETERS else refitted(known.at, columns, y)
        else:
            sides = (*self._box, run.room or run.extent)
            fit = tabulated if source == CONSTANTS else fitted
            found = fit(columns, y, sides if self._sides else ())
        return None if found is None else (source, found)


def _columns(like: Nest, candidates: Sequence[Ints], n: int) -> list[Ints] | None:
    """The coordinates that loops go over."""
    if not like.axes:
        return [] if n == 1 else None
    if not like.chosen:
        return [np.arange(n)]
    if max(like.chosen) >= len(candidates):
        return None
    found = [candidates[i] - candidates[i].min() for i in like.chosen]
    if any((c % step).any() for c, step in zip(found, like.steps, strict=True)):
        return None
    return [c // step for c, step in zip(found, like.steps, strict=True)]


@final
@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """What tapes of several sizes have in common: families, the `sides` of their memory, the most
    of each size, the constants that are the same, and which operands are `parameters`. `ends` has
    for each result whose place is a size its number, else -1. There is room for so many leaves and
    constants, and for `first` numbers of arguments."""

    families: Sequence[Family]
    sides: Sequence[tuple[int, ...]]
    most: tuple[int, ...]
    literals: Mapping[Place, float]
    parameters: tuple[Place, ...]
    results: Sequence[tuple[int, int]]
    ends: tuple[int, ...]
    room: int
    constants: int
    first: int

    def fit(self, tape: Recorded) -> Families | str:
        """The families of a tape, if they are these for other sizes, else why not."""
        if tape.given > self.first or len(tape.constant_data) > self.constants:
            return "it needs more room than there is"
        guide = _Sized(tape, self.families, self.sides, mapped=True)
        made = guided(tape, guide, self.first)
        if isinstance(made, str):
            return made
        if len(made.families) != len(self.families) or len(made.results) != len(self.results):
            return "it computes less"
        if made.room != self.room:
            return "it reads other Values"
        for place, x in self.literals.items():
            if place not in self.parameters and not _same(x, guide.literals[place]):
                return f"it has {guide.literals[place]!r} in the place of {x!r}"
        if not _alike(made.families, self.families):
            return "its operands are others"
        numbers = [guide.numbers.get(k, 0) for k in range(len(self.most))]
        for found, known, end in zip(made.results, self.results, self.ends, strict=True):
            if found[0] != known[0] or (end < 0 and found[1] != known[1]):
                return "a result lies elsewhere"
            if end >= 0:
                numbers[end] = found[1]
        if any(not 0 <= x <= top for x, top in zip(numbers, self.most, strict=True)):
            return "it needs more room than there is"
        parameters = tuple([guide.literals[p] for p in self.parameters])
        made.sizes = Sizes(
            tuple(numbers), self.most, parameters, self.ends, self.constants, self.first
        )
        return made


def _same(x: float, y: float) -> bool:
    return np.float64(x).tobytes() == np.float64(y).tobytes()


def _alike(found: Sequence[Family], known: Sequence[Family]) -> bool:
    """Whether operands have the same sources, the same ones have gradients, and tables follow the
    same rules."""
    pairs = zip(map(_operands, found), map(_operands, known), strict=True)
    return all(a == b for a, b in pairs)


def _operands(f: Family) -> list[Any]:
    slots = [s for r in f.runs for t in r.terms for s in t]
    ruled = f.op != GATHER
    return [(s.source, s.needed, s.at.table and ruled and s.at.table.rule) for s in slots]


SHARES = (1.0, 0.5, 0.25, 0.0)
"""How much of the room that there might be for longer lists a frame has: what it reads may end."""


@final
class Frames:
    """The frames of two tapes, of which the larger one has these families: they differ in how much
    room there is. `why` says why there are none."""

    def __init__(self, big: Recorded, made: Families, small: Recorded) -> None:
        self._tapes = big, small
        self._loose, self._before = _loosened(made.families)
        guide = _Sized(small, self._loose)
        found = guided(small, guide, small.given)
        self.why = found if isinstance(found, str) else ""
        if made.apart:
            self.why = "the lengths of its sums follow no rule"
        if big.whole_room > SPACE * big.leaves:
            self.why = "it reads few of many Values"
        self._after = [guide.numbers.get(k, 0) for k in range(len(self._before))]

    def frame(self, share: float) -> Frame | str:
        """The one with this share of the largest room; or why there is none."""
        big, small = self._tapes
        pairs = zip(self._before, self._after, strict=True)
        most = [_roomy(max(a, b), share) if a != b else -1 for a, b in pairs]
        tight, most = _tightened(self._loose, self._before, most)
        sides = [_sides(f, most) for f in tight]
        for f, side in zip(tight, sides, strict=True):
            if prod(side) > SPACE * f.units:
                return f"its {f.op} would need too much memory"
        tight = [_with_room(f, side, most) for f, side in zip(tight, sides, strict=True)]
        first = big.given
        if first != small.given:
            first = _roomy(max(first, small.given), share)
        one = _Sized(big, tight, sides)
        wide = guided(big, one, first)
        if isinstance(wide, str):
            return wide
        two = _Sized(small, wide.families, sides, mapped=True)
        narrow = guided(small, two, first)
        if isinstance(narrow, str):
            return narrow
        return _frame(wide, narrow, (one, two), sides, most, first)


def _frame(
    wide: Families,
    narrow: Families,
    guides: tuple[_Sized, _Sized],
    sides: Sequence[tuple[int, ...]],
    most: Sequence[int],
    first: int,
) -> Frame | str:
    """What two tapes have in common that have these families."""
    if len(narrow.families) != len(wide.families) or len(narrow.results) != len(wide.results):
        return "it computes less"
    one, two = [g.literals for g in guides]
    parameters = tuple([p for p, x in one.items() if not _same(x, two[p])])
    ends, tops = _ends(wide, narrow, len(most))
    return Frame(
        families=[_with_parameters(f, i, parameters) for i, f in enumerate(wide.families)],
        sides=sides,
        most=(*most, *tops),
        literals=one,
        parameters=parameters,
        results=wide.results,
        ends=ends,
        room=wide.room,
        constants=2 * max([g.constants for g in guides]),
        first=first,
    )


def _roomy(n: int, share: float) -> int:
    """The room for something that was so long."""
    return n + int(share * (grown(n) - n))


def grown(n: int) -> int:
    """The largest room for something that was so long."""
    return 1 << (n + n // 2).bit_length()


def _ends(wide: Families, narrow: Families, sizes: int) -> tuple[tuple[int, ...], list[int]]:
    """Of each result whose place differs a size, and the most that this is."""
    ends: list[int] = []
    tops: list[int] = []
    for (source, a), (_, b) in zip(wide.results, narrow.results, strict=True):
        if a == b or source < 0:
            ends.append(-1)
            continue
        ends.append(sizes + len(tops))
        tops.append(wide.families[source].size - 1)
    return tuple(ends), tops


def _loosened(families: Sequence[Family]) -> tuple[list[Family], list[int]]:
    """The same with sizes in the place of all ends of loops, and what these are."""
    numbers: list[int] = []

    def loose(m: Map) -> Map:
        numbers.append(m.const)
        return Map(0, m.coefficients, None, len(numbers) - 1)

    out: list[Family] = []
    for f in families:
        axes = [Axis(loose(a.low), loose(a.high), a.extent) for a in f.nest.axes]
        runs = f.runs
        if f.op != GATHER:
            runs = tuple([replace(r, count=loose(r.count)) for r in f.runs])
        out.append(replace(f, nest=replace(f.nest, axes=tuple(axes)), runs=runs))
    return out, numbers


def _tightened(
    families: Sequence[Family], numbers: Sequence[int], most: Sequence[int]
) -> tuple[list[Family], list[int]]:
    """The same with the sizes only that have a `most`, which are numbered anew."""
    kept = [k for k, top in enumerate(most) if top >= 0]
    at = {k: i for i, k in enumerate(kept)}

    def tight(m: Map) -> Map:
        if m.size is None:
            return m
        if m.size in at:
            return replace(m, size=at[m.size])
        return Map(numbers[m.size], m.coefficients)

    out: list[Family] = []
    for f in families:
        axes = [Axis(tight(a.low), tight(a.high), a.extent) for a in f.nest.axes]
        runs = tuple([replace(r, count=tight(r.count)) for r in f.runs])
        out.append(replace(f, nest=replace(f.nest, axes=tuple(axes)), runs=runs))
    return out, [most[k] for k in kept]


def _sides(f: Family, most: Sequence[int]) -> tuple[int, ...]:
    """The sides of the box that a family's coordinates are in for all sizes."""
    sides: list[int] = []
    for axis in f.nest.axes:
        sides.append(max(1, _top(axis.high, sides, most)))
    return tuple(sides)


def _with_room(f: Family, sides: Sequence[int], most: Sequence[int]) -> Family:
    """The same with how often loops run at most."""
    axes: list[Axis] = []
    for i, axis in enumerate(f.nest.axes):
        low, high = axis.low, axis.high
        weights = [b - a for a, b in zip(low.coefficients, high.coefficients, strict=True)]
        least = 0 if low.size is not None else low.const
        ahead = Map(high.const - least, tuple(weights), None, high.size)
        axes.append(replace(axis, room=max(1, _top(ahead, sides[:i], most))))
    runs: list[Run] = []
    for run in f.runs:
        runs.append(replace(run, room=max(1, _top(run.count, sides, most))))
    return replace(f, nest=replace(f.nest, axes=tuple(axes)), runs=tuple(runs))


def _top(m: Map, sides: Sequence[int], most: Sequence[int]) -> int:
    """The largest number that a map gives within sides."""
    pairs = zip(m.coefficients, sides, strict=False)
    top = m.const + sum(max(0, c * (side - 1)) for c, side in pairs)
    return top + (most[m.size] if m.size is not None else 0)


def _with_parameters(f: Family, number: int, parameters: Sequence[Place]) -> Family:
    """The same with parameters in the place of constants that differ."""

    def slot(x: Slot, place: Place) -> Slot:
        if place not in parameters:
            return x
        at = Map(parameters.index(place), x.at.coefficients)
        return Slot(PARAMETERS, at, False)

    runs = [
        replace(
            run,
            terms=tuple(
                [
                    tuple([slot(x, (number, r, q, s)) for s, x in enumerate(term)])
                    for q, term in enumerate(run.terms)
                ]
            ),
        )
        for r, run in enumerate(f.runs)
    ]
    return replace(f, runs=tuple(runs))
