"""What a family is: loops over coordinates, and where the operands of each of its numbers lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from chainrule.compile.scalars.gathers import Choice
from chainrule.compile.scalars.reroll.coordinates import Nest
from chainrule.compile.scalars.reroll.index_maps import Ints, Map, Table

LEAVES, CONSTANTS, PARAMETERS = -1, -2, -3
"""What stands for a family's number where an operand is none. Parameters are constants that are
others for other sizes."""


@final
@dataclass(frozen=True, slots=True)
class Slot:
    """An operand: the number of a family, or `LEAVES` or `CONSTANTS`; whether it has a gradient;
    and where it lies, as a map of the coordinates and of how often a run was repeated before."""

    source: int
    at: Map
    needed: bool

    @property
    def literal(self) -> bool:
        """Whether it is one constant."""
        return self.source == CONSTANTS and self.at.fixed


@final
@dataclass(frozen=True, slots=True)
class Run:
    """Terms that are repeated `count` times, a map of the coordinates, at most `extent` times."""

    terms: tuple[tuple[Slot, ...], ...]
    count: Map
    extent: int
    room: int = 0
    """How often it repeats at most for other sizes, where these are of a run."""

    @property
    def most(self) -> int:
        """How often it repeats at most for any sizes."""
        return self.room or self.extent


@final
@dataclass(frozen=True, slots=True)
class Family:
    """`units` numbers that are computed alike, in memory by their coordinates, row by row."""

    op: str
    nest: Nest
    runs: tuple[Run, ...]
    strides: tuple[int, ...]
    size: int
    units: int
    lines: Ints
    """The lines of the program that compute them, as a tape has them; each once."""


@final
@dataclass(frozen=True, slots=True)
class Sizes:
    """What the code of several sizes is given: a number for each size, at most `most`; for each
    parameter; for which results their places are sizes, by number. `constants` there is room for,
    and `first` numbers of arguments."""

    numbers: tuple[int, ...]
    most: tuple[int, ...]
    parameters: tuple[float, ...]
    results: tuple[int, ...]
    constants: int
    first: int


@final
@dataclass(slots=True)
class Families:
    """The families of a tape, in an order in which each needs only those before it. And of each
    result of the tape the source and the place in its memory."""

    families: list[Family]
    results: list[tuple[int, int]]
    spots: Ints
    """Where leaves lie among `room` ones."""
    room: int
    apart: frozenset[int] = frozenset()
    """The instructions that end sums that were taken apart."""
    chosen: dict[int, tuple[Ints, Choice]] = field(default_factory=dict[int, "tuple[Ints, Choice]"])
    """By table, by `id`, which of its entries a call fills by its ints, and with what."""
    sizes: Sizes | None = None
    """The sizes of the run, where its code is for several."""

    def tables(self) -> list[Table]:
        """All tables, in the order of the operands that they are for."""
        slots = [s for f in self.families for r in f.runs for t in r.terms for s in t]
        return [s.at.table for s in slots if s.at.table is not None]
