"""The guide that lets a tape have the families of another one, for sizes that it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np

from chainrule.compile.scalars.reroll.colours import Members
from chainrule.compile.scalars.reroll.coordinates import Axis, Nest, spans, tell_apart
from chainrule.compile.scalars.reroll.family import (
    CONSTANTS,
    PARAMETERS,
    Family,
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
from chainrule.compile.scalars.reroll.units import Recorded

Place = tuple[int, int, int, int]
"""Which operand: family, run, term, and which of the term."""


@final
class Sized(Guide):
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
