"""Coordinates: columns of integers that tell the units of a family apart, and loops over them.

Candidates are the coordinates of operands. The fewest are taken that no two units share, and whose
values are just those that a nest of loops with affine bounds counts through: boxes, triangles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import final

import numpy as np

from chainrule.compile.scalars.reroll.index_maps import Ints, Map, affine

MOST = 4
"""Coordinates of a family."""
CANDIDATES = 10
"""Columns that are tried."""


@final
@dataclass(frozen=True, slots=True)
class Axis:
    """A loop: its coordinate goes from `low` to below `high`, maps of the coordinates of the loops
    around it; `extent` is how often it runs at most."""

    low: Map
    high: Map
    extent: int
    room: int = 0
    """How often it runs at most for other sizes, where these are of a run."""

    @property
    def most(self) -> int:
        """How often it runs at most for any sizes."""
        return self.room or self.extent


@final
@dataclass(frozen=True, slots=True)
class Nest:
    """Coordinates of a family, outermost loop first: columns, the loops that count them, and which
    of the candidates they were, if they were any, divided by which `steps`."""

    columns: tuple[Ints, ...]
    axes: tuple[Axis, ...]
    chosen: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


def nest_of(candidates: Sequence[Ints], n: int, like: Nest | None = None) -> Nest:
    """The loops for n units. Where no candidates make a nest, their rank does; where they count as
    those of a known one do, they are `like` it."""
    if n == 1:
        return Nest((), ())
    if like is not None and (again := _same(candidates, like)) is not None:
        return again
    columns = _distinct(candidates)[:CANDIDATES]
    for k in range(1, min(MOST, len(columns)) + 1):
        for chosen in combinations(columns, k):
            if not tell_apart([c for _, c in chosen]):
                continue
            if (found := _nest(chosen, candidates)) is not None:
                return found
    return ranked(n)


def _same(candidates: Sequence[Ints], like: Nest) -> Nest | None:
    """The loops over the same candidates, if they are the same loops."""
    if not like.chosen or max(like.chosen) >= len(candidates):
        return None
    columns = [_plain(candidates[i]) for i in like.chosen]
    found = tuple([c for c in columns if c is not None])
    if len(found) < len(columns) or not tell_apart(found) or _axes(found) != like.axes:
        return None
    return Nest(found, like.axes, like.chosen, like.steps)


def ranked(n: int) -> Nest:
    """One loop over all of n units."""
    return Nest((np.arange(n),), (Axis(Map(0, ()), Map(n, ()), n),))


def _distinct(candidates: Sequence[Ints]) -> list[tuple[int, Ints]]:
    """Columns that vary, each once, and which candidates they are."""
    out: list[tuple[int, Ints]] = []
    for i, candidate in enumerate(candidates):
        c = _plain(candidate)
        if c is not None and not any(np.array_equal(c, x) for _, x in out):
            out.append((i, c))
    return out


def _plain(c: Ints) -> Ints | None:
    """A column from 0 on in the smallest steps, if it varies."""
    step = _step(c)
    return (c - c.min()) // step if step else None


def _step(c: Ints) -> int:
    return int(np.gcd.reduce(c - c.min()))


def tell_apart(columns: Sequence[Ints]) -> bool:
    """Whether no two rows are equal."""
    key = _key(columns)
    return len(np.unique(key)) == len(key)


def _key(columns: Sequence[Ints]) -> Ints:
    """One integer for each row, equal where rows are."""
    key = np.zeros_like(columns[0])
    for c in columns:
        key = key * (int(c.max()) + 1) + c
    return key


def _nest(chosen: Sequence[tuple[int, Ints]], candidates: Sequence[Ints]) -> Nest | None:
    """The loops that count through these columns, the longest innermost where that can be."""
    for order in permutations(sorted(chosen, key=lambda x: int(x[1].max()))):
        ordered = tuple([c for _, c in order])
        axes = _axes(ordered)
        if axes is not None:
            picks = tuple([i for i, _ in order])
            return Nest(ordered, axes, picks, tuple([_step(candidates[i]) for i in picks]))
    return None


def _axes(columns: Sequence[Ints]) -> tuple[Axis, ...] | None:
    """The loops in this order, if they count exactly the rows."""
    out: list[Axis] = []
    for heads, low, high in spans(columns):
        bounds = affine(heads, low), affine(heads, high)
        if bounds[0] is None or bounds[1] is None:
            return None
        out.append(Axis(bounds[0], bounds[1], int((high - low).max())))
    return tuple(reversed(out)) if len(out) == len(columns) else None


def spans(columns: Sequence[Ints]) -> Iterator[tuple[list[Ints], Ints, Ints]]:
    """From the innermost loop outwards: the coordinates around it, and from where to where it goes
    there; it ends at a loop that is not full."""
    rows = list(columns)
    while rows:
        last, around = rows[-1], rows[:-1]
        heads: list[Ints] = []
        if around:
            _, first, group = np.unique(_key(around), return_index=True, return_inverse=True)
            heads = [c[first] for c in around]
        else:
            group = np.zeros(len(last), np.int64)
            first = np.zeros(1, np.int64)
        low = np.full(len(first), int(last.max()))
        np.minimum.at(low, group, last)
        high = np.zeros(len(first), np.int64)
        np.maximum.at(high, group, last + 1)
        if (high - low).sum() != len(last):
            return
        yield heads, low, high
        rows = heads
