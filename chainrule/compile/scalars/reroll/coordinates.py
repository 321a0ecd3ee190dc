"""Coordinates: columns of integers that tell the units of a family apart, and loops over them.

Candidates are the coordinates of operands. The fewest are taken that no two units share, and whose
values are just those that a nest of loops with affine bounds counts through: boxes, triangles.
"""

from __future__ import annotations

from collections.abc import Sequence
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


@final
@dataclass(frozen=True, slots=True)
class Nest:
    """Coordinates of a family, outermost loop first: columns, and the loops that count them."""

    columns: tuple[Ints, ...]
    axes: tuple[Axis, ...]


def nest_of(candidates: Sequence[Ints], n: int) -> Nest:
    """The loops for n units. Where no candidates make a nest, their rank does."""
    if n == 1:
        return Nest((), ())
    columns = _distinct(candidates)[:CANDIDATES]
    for k in range(1, min(MOST, len(columns)) + 1):
        for chosen in combinations(columns, k):
            if _tell_apart(chosen) and (found := _nest(chosen)) is not None:
                return found
    return ranked(n)


def ranked(n: int) -> Nest:
    """One loop over all of n units."""
    return Nest((np.arange(n),), (Axis(Map(0, ()), Map(n, ()), n),))


def _distinct(candidates: Sequence[Ints]) -> list[Ints]:
    """Columns that vary, from 0 on in the smallest steps, each once."""
    out: list[Ints] = []
    for c in candidates:
        c = c - c.min()
        step = np.gcd.reduce(c)
        if step == 0:
            continue
        c = c // step
        if not any(np.array_equal(c, x) for x in out):
            out.append(c)
    return out


def _tell_apart(columns: Sequence[Ints]) -> bool:
    key = _key(columns)
    return len(np.unique(key)) == len(key)


def _key(columns: Sequence[Ints]) -> Ints:
    """One integer for each row, equal where rows are."""
    key = np.zeros_like(columns[0])
    for c in columns:
        key = key * (int(c.max()) + 1) + c
    return key


def _nest(columns: Sequence[Ints]) -> Nest | None:
    """The loops that count through these columns, the longest innermost where that can be."""
    by_size = sorted(range(len(columns)), key=lambda i: int(columns[i].max()))
    for order in permutations(by_size):
        ordered = tuple([columns[i] for i in order])
        axes = _axes(ordered)
        if axes is not None:
            return Nest(ordered, axes)
    return None


def _axes(columns: Sequence[Ints]) -> tuple[Axis, ...] | None:
    """The loops in this order, if they count exactly the rows: from the innermost outwards, each
    must be full between affine bounds."""
    out: list[Axis] = []
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
            return None
        bounds = affine(heads, low), affine(heads, high)
        if bounds[0] is None or bounds[1] is None:
            return None
        out.append(Axis(bounds[0], bounds[1], int((high - low).max())))
        rows = heads
    return tuple(reversed(out))
