"""Values of formulas, by which a value is looked up: by some of their elements, at several points.
What "up to" says is taken out of both sides first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.meanings import Meaning

_SAMPLES = 24
FEW = 3
"""Elements of a value from which on it tells more than a scale."""


def sample(x: Array) -> Array:
    """Some of its elements, always the same ones."""
    flat = x.reshape(-1)
    return flat if flat.size <= _SAMPLES else flat[_places(flat.size)]


_known_places: dict[int, Array] = {}


def _places(size: int) -> Array:
    if size not in _known_places:
        _known_places[size] = np.unique(np.linspace(0, size - 1, _SAMPLES).astype(int))
    return _known_places[size]


def normal(rows: Array, up_to: str) -> Array:
    """Rows, with what makes no difference taken out; NaN where nothing is left."""
    with np.errstate(all="ignore"):
        if up_to == "shift and scale":
            rows = rows - rows.mean(-1, keepdims=True)
        if up_to:
            length = np.sqrt((rows * rows).sum(-1, keepdims=True))
            if up_to == "factor":
                first = np.take_along_axis(rows, np.abs(rows).argmax(-1)[..., None], -1)
                length = length * np.sign(first)
            rows = rows / length
    return rows


def same_up_to(a: Array, b: Array, up_to: str, tolerance: float) -> bool:
    """Whether two rows of numbers are one, up to what makes no difference."""
    x, y = normal(a, up_to), normal(b, up_to)
    if x.shape != y.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return False
    size = float(np.abs(y).max(initial=0))
    return size > 0 and float(np.abs(x - y).max(initial=0)) <= tolerance * size


_Group: TypeAlias = tuple[tuple[int, ...], str]
"""The shape of values, and up to what they are compared."""


@dataclass(eq=False)
class Table:
    """Meanings, by the shape of their values."""

    points: int
    _rows: dict[_Group, list[tuple[Meaning, Array]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _matrices: dict[tuple[_Group, int], tuple[Array, Array]] = field(
        default_factory=dict[tuple[_Group, int], tuple[Array, Array]]
    )

    def add(self, meaning: Meaning, values: Sequence[Array]) -> None:
        """One more, with its values at all points."""
        key = (values[0].shape, meaning.formula.up_to)
        if values[0].size == 0:
            return
        self._rows[key].append((meaning, np.stack(list(map(sample, values)))))

    def near(self, values: Sequence[Array], tolerance: float) -> Iterator[Meaning]:
        """Those that have these values, at the first point or at more; a number at one point tells
        nothing if only a part of it counts."""
        for key, rows in self._rows.items():
            shape, up_to = key
            if any(v.shape != shape for v in values) or (values[0].size < FEW and up_to and
                                                         len(values) < self.points):  # fmt: skip
                continue
            own = normal(np.concatenate(list(map(sample, values))), up_to)
            matrix, order = self._matrix(key, len(values))
            if not np.isfinite(own).all():
                continue
            off = tolerance * float(np.abs(own).max(initial=0))
            first, last = np.searchsorted(matrix[:, 0], (own[0] - off, own[0] + off))
            fits = np.abs(matrix[first:last] - own).max(-1, initial=0) <= off
            yield from (rows[order[first + i]][0] for i in np.flatnonzero(fits))

    def _matrix(self, key: _Group, count: int) -> tuple[Array, Array]:
        """Values of a group at some points as rows, sorted by their first elements, and the order
        in which they were."""
        if (key, count) not in self._matrices:
            rows = np.stack([samples[:count].reshape(-1) for _, samples in self._rows[key]])
            rows = normal(rows, key[1])
            order = np.argsort(rows[:, 0])
            self._matrices[key, count] = rows[order], order
        return self._matrices[key, count]

    def needs_all(self, value: Array) -> bool:
        """Whether a value tells something only together with those at other points."""
        return value.size < FEW and any(
            shape == value.shape and up_to for shape, up_to in self._rows
        )

    @cached_property
    def formulas(self) -> set[str]:
        """Names of those that have a value."""
        return {m.formula.name for rows in self._rows.values() for m, _ in rows}
