"""Index maps: where an operand lies, as a function of coordinates, exactly.

A map is affine, or affine plus a table of some of the coordinates (a gather). What is fitted to a
few rows is checked against all of them, so a map that is found is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

SAMPLE = 256
"""Rows that coefficients are fitted to."""
SPARSE = 8
"""A table may have so many entries for each that is used."""

Ints = NDArray[np.int64]
"""A column of integers, int64."""


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """`start` and `step` times `i // each`."""

    start: int
    step: int
    each: int


@final
@dataclass(frozen=True, slots=True)
class Table:
    """Numbers at the place that `steps`, a coefficient for each coordinate, lead to."""

    values: Ints
    steps: tuple[int, ...]

    @property
    def rule(self) -> Rule | None:
        """What all its numbers follow, if there is a rule for them."""
        others = np.flatnonzero(self.values != self.values[0])
        if len(others) == 0 or others[0] == 1:
            return None
        start, each = int(self.values[0]), int(others[0])
        step = int(self.values[each]) - start
        follow = start + step * (np.arange(len(self.values)) // each)
        return Rule(start, step, each) if np.array_equal(follow, self.values) else None


@final
@dataclass(frozen=True, slots=True)
class Map:
    """`const` plus the sum of coefficient times coordinate, plus what a table says."""

    const: int
    coefficients: tuple[int, ...]
    table: Table | None = None
    size: int | None = None
    """The number of a size of the run that is added, where there is one; see `sizes`."""

    @property
    def fixed(self) -> bool:
        """Whether it is the same everywhere, in all runs."""
        return self.table is None and self.size is None and not any(self.coefficients)

    @property
    def form(self) -> Any:
        """All but what a table holds that has no rule."""
        table = self.table and (len(self.table.values), self.table.steps, self.table.rule)
        return self.const, self.coefficients, table


def fitted(columns: Sequence[Ints], y: Ints, sides: Sequence[int] = ()) -> Map | None:
    """`y` as a function of the columns; None if a table would be too large. Tables have room for
    columns below `sides`, where these are given."""
    return affine(columns, y) or tabulated(columns, y, sides)


def tabulated(columns: Sequence[Ints], y: Ints, sides: Sequence[int] = ()) -> Map | None:
    """`y` as a table of some of the columns plus an affine function of the others."""
    k = len(columns)
    for n in (1, 2, k):
        for chosen in combinations(range(k), min(n, k)):
            found = _by_table(columns, chosen, y, sides)
            if found is not None:
                return found
    return None


def refitted(known: Map, columns: Sequence[Ints], y: Ints) -> Map | None:
    """`y` as a function of the columns that is of the form of a known one, if it is one."""
    rest = y - known.const - weighted(known.coefficients, columns, len(y))
    if known.table is None:
        return None if rest.any() else known
    where = weighted(known.table.steps, columns, len(y))
    size = len(known.table.values)
    if where.min() < 0 or where.max() >= size:
        return None
    values = np.zeros(size, np.int64)
    values[where] = rest
    if not np.array_equal(values[where], rest):
        return None
    return Map(known.const, known.coefficients, Table(values, known.table.steps))


def weighted(weights: Sequence[int], columns: Sequence[Ints], n: int) -> Ints:
    """The sum of weight times column."""
    pairs = zip(weights, columns, strict=True)
    return sum((w * c for w, c in pairs if w), np.zeros(n, np.int64))


def affine(columns: Sequence[Ints], y: Ints) -> Map | None:
    """`y` as an affine function of the columns, if it is one."""
    low = int(y[0])
    if (y == low).all():
        return Map(low, (0,) * len(columns))
    w = _coefficients([*columns, np.ones(len(y), np.int64)], y)
    return None if w is None else Map(w[-1], w[:-1])


def _coefficients(columns: Sequence[Ints], y: Ints) -> tuple[int, ...] | None:
    """Integers with which the columns add up to `y`."""
    if not columns:
        return () if not y.any() else None
    x = np.column_stack(columns)
    few = np.linspace(0, len(y) - 1, SAMPLE).astype(np.int64) if len(y) > SAMPLE else slice(None)
    w: Any = np.linalg.lstsq(x[few].astype(float), y[few].astype(float), rcond=None)[0]
    whole: Ints = np.rint(w).astype(np.int64)
    return tuple(whole.tolist()) if np.array_equal(x @ whole, y) else None


def _by_table(
    columns: Sequence[Ints], chosen: Sequence[int], y: Ints, sides: Sequence[int]
) -> Map | None:
    """`y` as a table of the chosen columns plus an affine function of the others."""
    sizes = [int(columns[c].max()) + 1 for c in chosen]
    if np.prod(sizes, dtype=float) > SPARSE * len(y):
        return None
    if sides:
        sizes = [sides[c] for c in chosen]
    steps = [0] * len(columns)
    where = np.zeros(len(y), np.int64)
    step = 1
    for c, size in zip(reversed(chosen), reversed(sizes), strict=True):
        steps[c] = step
        where = where + step * columns[c]
        step *= size
    _, first, group = np.unique(where, return_index=True, return_inverse=True)
    origin = first[group]
    others = [i for i in range(len(columns)) if i not in chosen]
    w = _coefficients([columns[i] - columns[i][origin] for i in others], y - y[origin])
    if w is None:
        return None
    rest = y - sum((c * columns[i] for c, i in zip(w, others, strict=True)), np.zeros_like(y))
    values = np.zeros(step, np.int64)
    values[where] = rest
    coefficients = [0] * len(columns)
    for c, i in zip(w, others, strict=True):
        coefficients[i] = c
    return Map(0, tuple(coefficients), Table(values, tuple(steps)))
