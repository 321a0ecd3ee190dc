"""One program for several sizes: lists of another length need no other loops.

Two tapes of a function often have the same families, but for how far their loops go. A `Frame` is
what they have in common: ends of loops that differ are `sizes`, constants that differ `parameters`,
both of which a run is given. Memory has room for longer lists, so that where an operand lies is the
same map for all of them. A further tape is compared with the frame, number by number: what fits
runs the same code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, final

import numpy as np

from chainrule.compile.scalars.reroll.families import guided
from chainrule.compile.scalars.reroll.family import (
    Families,
    Family,
    Sizes,
)
from chainrule.compile.scalars.reroll.rooms import (
    loosened,
    sides_of,
    tightened,
    with_parameters,
    with_room,
)
from chainrule.compile.scalars.reroll.sized_guide import Place, Sized
from chainrule.compile.scalars.reroll.units import GATHER, Recorded

SPACE = 64
"""A family's memory for all sizes may be so many times what its units need."""


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
        guide = Sized(tape, self.families, self.sides, mapped=True)
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
        self._loose, self._before = loosened(made.families)
        guide = Sized(small, self._loose)
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
        tight, most = tightened(self._loose, self._before, most)
        sides = [sides_of(f, most) for f in tight]
        for f, side in zip(tight, sides, strict=True):
            if prod(side) > SPACE * f.units:
                return f"its {f.op} would need too much memory"
        tight = [with_room(f, side, most) for f, side in zip(tight, sides, strict=True)]
        first = big.given
        if first != small.given:
            first = _roomy(max(first, small.given), share)
        one = Sized(big, tight, sides)
        wide = guided(big, one, first)
        if isinstance(wide, str):
            return wide
        two = Sized(small, wide.families, sides, mapped=True)
        narrow = guided(small, two, first)
        if isinstance(narrow, str):
            return narrow
        return _frame(wide, narrow, (one, two), sides, most, first)


def _frame(
    wide: Families,
    narrow: Families,
    guides: tuple[Sized, Sized],
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
        families=[with_parameters(f, i, parameters) for i, f in enumerate(wide.families)],
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
