"""What loops and maps are chosen by while families are put together.

`Free` takes what fits. `Along` takes over what the families of a tape like this have, as far as it
fits. A third guide, for families of any sizes, is in `sizes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, final

import numpy as np

from chainrule.compile.scalars.reroll.colours import Members
from chainrule.compile.scalars.reroll.coordinates import Nest, nest_of, ranked
from chainrule.compile.scalars.reroll.family import Family
from chainrule.compile.scalars.reroll.index_maps import Ints, Map, affine, fitted, refitted

ROOM = 4
"""A family's memory may be so many times what its units need: half of a triangle is empty."""


class MisfitError(Exception):
    """What a guide prescribes does not fit; says what."""


@final
@dataclass(frozen=True, slots=True)
class Laid:
    """A family's loops, the sides of the box that its memory is, and where its units lie there."""

    nest: Nest
    sides: tuple[int, ...]
    address: Ints

    @property
    def strides(self) -> tuple[int, ...]:
        """How far neighbours along each side are apart."""
        return strides_of(self.sides)

    @property
    def size(self) -> int:
        """The memory's size."""
        return prod(self.sides)


@final
@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a family: `term` `q` of run `r`, and in it `s`; `source` is where it lies, and
    the constants of the tape, if those are."""

    family: int
    r: int
    q: int
    s: int
    source: int


class Guide(ABC):
    """Chooses for the families of one tape, in their order."""

    @abstractmethod
    def lay_out(self, number: int, members: Members, candidates: Sequence[Ints]) -> Laid:
        """The loops of a family and its memory; `candidates` are the coordinates of operands."""

    @abstractmethod
    def count(self, number: int, r: int, nest: Nest, count: Ints) -> tuple[Map, int] | None:
        """How often run `r` of a family repeats, by its coordinates, and the most in other runs, or
        0; None if no map says it."""

    @abstractmethod
    def operand(self, of: Operand, columns: Sequence[Ints], y: Ints) -> tuple[int, Map] | None:
        """Where an operand lies, if a map says it: source and place."""


@final
class Free(Guide):
    """Takes what fits."""

    def lay_out(self, number: int, members: Members, candidates: Sequence[Ints]) -> Laid:
        """The first loops that there are."""
        return laid_out(nest_of(candidates, len(members.units)), len(members.units))

    def count(self, number: int, r: int, nest: Nest, count: Ints) -> tuple[Map, int] | None:
        """An affine map."""
        found = affine(nest.columns, count)
        return None if found is None else (found, 0)

    def operand(self, of: Operand, columns: Sequence[Ints], y: Ints) -> tuple[int, Map] | None:
        """The first map that there is."""
        found = fitted(columns, y)
        return None if found is None else (of.source, found)


@final
class Along(Guide):
    """Takes over what these families have, as far as it fits, and else what there is."""

    def __init__(self, known: Sequence[Family]) -> None:
        self._known = known
        self._free = Free()
        self._like: Family | None = None

    def lay_out(self, number: int, members: Members, candidates: Sequence[Ints]) -> Laid:
        """The loops of the known family, if they count the same."""
        n = len(members.units)
        like = self._known[number] if number < len(self._known) else None
        if like and (like.units != n or not is_like(like, members)):
            like = None
        found = laid_out(nest_of(candidates, n, like.nest if like else None), n)
        self._like = like if like and like.nest.axes == found.nest.axes else None
        return found

    def count(self, number: int, r: int, nest: Nest, count: Ints) -> tuple[Map, int] | None:
        """An affine map."""
        return self._free.count(number, r, nest, count)

    def operand(self, of: Operand, columns: Sequence[Ints], y: Ints) -> tuple[int, Map] | None:
        """A map in the form of the known one."""
        form = self._like.runs[of.r].terms[of.q][of.s].at if self._like else None
        found = form and refitted(form, columns, y)
        return (of.source, found) if found else self._free.operand(of, columns, y)


def is_like(family: Family, members: Members) -> bool:
    """Whether members have the op of a family, and as many runs, terms and operands."""
    shape = [[len(t) for t in r.terms] for r in family.runs]
    return family.op == members.op and shape == [[len(t) for t in r] for r in members.runs]


def laid_out(nest: Nest, n: int) -> Laid:
    """Memory for n units, by rank if the box that their coordinates span is mostly empty."""
    sides = tuple([int(c.max()) + 1 for c in nest.columns])
    if prod(sides) > ROOM * n:
        nest, sides = ranked(n), (n,)
    return Laid(nest, sides, address_of(nest, sides, n))


def address_of(nest: Nest, sides: Sequence[int], n: int) -> Ints:
    """Where each of n units lies."""
    pairs: Any = zip(strides_of(sides), nest.columns, strict=True)
    return sum((s * c for s, c in pairs), np.zeros(n, np.int64))


def strides_of(sides: Sequence[int]) -> tuple[int, ...]:
    """How far neighbours along each side of a box are apart."""
    return tuple([prod(sides[i + 1 :]) for i in range(len(sides))])
