"""The sparsest form of a linear map that is known by what it does, in any framework.

| form | what it is of | how it is found |
|---|---|---|
| `Scatter`, `Gather` | what moves, repeats, picks, adds up | two arrays tell; a third checks |
| `Matrix` | all others of moderate size | one element at a time, or one of each row |

Rows are what one array of numbers shows not to mix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.traces.trace import Gather, Local, Matrix, Opaque, Scatter

Map = Callable[[Any], Any]
Shape = tuple[int, ...]
MAX_STEPS = 512
"""So many applications of a map are made for one `Matrix`."""
MAX_ENTRIES = 1 << 14
"""A `Matrix` of more entries is not kept."""


@final
@dataclass(frozen=True)
class Rule:
    """The derivative of a value of shape `out` by one of shape `into`: `pull` carries arrays of
    shape `out` back, `push` (None: there is none) arrays of shape `into` forward. Results are
    float64; `epsilon` is what the maps round to."""

    pull: Map
    push: Map | None
    into: Shape
    out: Shape
    epsilon: float = 2.0**-52

    @property
    def sizes(self) -> tuple[int, int]:
        """Elements of the input and of the output."""
        return math.prod(self.into), math.prod(self.out)


def sparse_form(rule: Rule, name: str) -> Local:
    """The form of the derivative called `name`; `Opaque` where it has too many entries."""
    size, count = rule.sizes
    none = np.zeros(0, np.int32)
    if not (size and count):
        return Matrix(none, none, np.zeros(0), name)
    found = _one_source(rule.pull, size, rule.out, rule.epsilon)
    if found is not None:
        return Scatter(*found, "1" if bool((found[1] == 1).all()) else "coefficient")
    if rule.push is not None:
        found = _one_source(rule.push, count, rule.into, rule.epsilon)
        if found is not None:
            return Gather(*found, "1" if bool((found[1] == 1).all()) else "coefficient")
    return _matrix(rule, name)


def _one_source(linear: Map, count: int, shape: Shape, epsilon: float) -> tuple[Any, Any] | None:
    """For a linear map of which each of `count` results is a multiple of one element of an array of
    `shape`: which element, and the factor. None if it is no such map."""
    rng = np.random.default_rng(0)
    among = math.prod(shape)
    factors = linear(np.ones(shape)).ravel()
    named = linear(np.arange(1.0, among + 1).reshape(shape)).ravel()
    with np.errstate(all="ignore"):
        which = np.where(factors == 0, 0, np.rint(named / factors) - 1)
    if not (np.isfinite(which).all() and (which >= 0).all() and (which < among).all()):
        return None
    which = which.astype(np.int32)
    test = rng.uniform(0.5, 1.5, among) * rng.choice([-1.0, 1.0], among)
    if not _agree(linear(test.reshape(shape)).ravel(), factors * test[which], epsilon):
        return None
    return which, factors


def _agree(a: Any, b: Any, epsilon: float, noise: float = 0.0) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, rtol=64 * epsilon, atol=noise))


# --- Matrices ------------------------------------------------------------------------------------


def _matrix(rule: Rule, name: str) -> Local:
    size, count = rule.sizes
    for into, out in _rows(rule.into, rule.out):
        blocks = math.prod([rule.into[i] for i in into])
        if blocks * (size // blocks) * (count // blocks) > 64 * MAX_ENTRIES:
            continue
        if _steps(rule, blocks) <= MAX_STEPS and (found := _entries(rule, into, out)) is not None:
            if len(found[0]) > MAX_ENTRIES:
                return Opaque(f"its Jacobian has {len(found[0]):,} entries", name)
            return Matrix(*found, name)
    return Opaque(f"its Jacobian is {count:,} by {size:,} elements, and no row is alone", name)


def _steps(rule: Rule, blocks: int) -> int:
    """How many applications of the cheaper map a matrix takes, if it consists of equal blocks."""
    size, count = rule.sizes
    return (count if rule.push is None else min(size, count)) // blocks


def _rows(into: Shape, out: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Axes of the input, and as many of the output, along which the map may be separate: all but
    one axis, then fewer and fewer leading axes, at last none."""
    if len(into) == len(out):
        for a in reversed(range(len(out))):
            axes = tuple([i for i in range(len(out)) if i != a])
            if all(into[i] == out[i] for i in axes) and math.prod([out[i] for i in axes]) > 1:
                yield axes, axes
    same = 0
    while same < min(len(into), len(out)) and into[same] == out[same]:
        same += 1
    for lead in range(same, 0, -1):
        if math.prod(out[:lead]) > 1:
            yield tuple(range(lead)), tuple(range(lead))
    yield (), ()


def _entries(rule: Rule, into: Shape, out: Shape) -> tuple[Any, Any, Any] | None:
    """Rows, columns and values of a map that is separate along these axes; None if it is not."""
    columns, rows = _blocks(rule.into, into), _blocks(rule.out, out)
    back = rule.push is None or rows.shape[1] <= columns.shape[1]
    sources, results = (rows, columns) if back else (columns, rows)
    shape, linear = (rule.out, rule.pull) if back else (rule.into, rule.push or rule.pull)
    parts: list[tuple[Any, Any, Any]] = []
    for k in range(sources.shape[1]):
        unit = np.zeros(math.prod(shape))
        unit[sources[:, k]] = 1
        got = linear(unit.reshape(shape)).ravel()[results]
        block, at = got.nonzero()
        parts.append((sources[block, k], results[block, at], got[block, at]))
    first, second, values = [np.concatenate(list(x)) for x in zip(*parts, strict=True)]
    found = (first, second) if back else (second, first)
    order = np.lexsort((found[1], found[0]))
    entries = found[0][order].astype(np.int32), found[1][order].astype(np.int32), values[order]
    return entries if len(rows) == 1 or _holds(rule, *entries) else None


def _blocks(shape: Shape, axes: Shape) -> Any:
    """The numbers of the elements: a row for each index of `axes`."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    first = math.prod([shape[i] for i in axes])
    return np.moveaxis(numbers, axes, range(len(axes))).reshape(first, -1)


def _holds(rule: Rule, rows: Any, columns: Any, values: Any) -> bool:
    """Whether the entries do to an array of numbers what the rule does."""
    size, count = rule.sizes
    g = np.random.default_rng(1).uniform(0.5, 1.5, count)
    g *= np.random.default_rng(2).choice([-1.0, 1.0], count)
    want = rule.pull(g.reshape(rule.out)).ravel()
    got = np.bincount(columns, values * g[rows], minlength=size)
    parts = np.bincount(columns, np.abs(values * g[rows]), minlength=size)
    noise = 1e3 * rule.epsilon * float(parts.max(initial=0.0))
    return bool(np.isfinite(want).all()) and _agree(got, want, rule.epsilon, noise)
