"""Arrays that a formula says: they need no memory, and no fixed size.

| pattern | element |
|---|---|
| `Uniform` | the same number everywhere |
| `Triangle` | whether column <= row + k, on the last two axes |
| `Steps` | start + step * (index along one axis) |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.graph.sizes import Extent


@final
@dataclass(frozen=True, slots=True)
class Ratio:
    """The number `scale / size`, or `scale * size`: it depends on a symbol."""

    scale: float
    size: Extent
    over: bool

    def __repr__(self) -> str:
        return f"{self.scale} {'/' if self.over else '*'} ({self.size})"


@final
@dataclass(frozen=True, slots=True)
class Uniform:
    """The same number everywhere: a Python number, a `Size` or a `Ratio`."""

    value: Any


@final
@dataclass(frozen=True, slots=True)
class Triangle:
    """A lower triangle of True, with `k` diagonals above the main one."""

    k: Extent


@final
@dataclass(frozen=True, slots=True)
class Steps:
    """start, start + step, ... along `axis`, the same along all others."""

    axis: int
    start: Any
    step: Any


Pattern = Uniform | Triangle | Steps


def find_pattern(x: Any) -> Pattern | None:
    """The formula that gives all elements of `x`, exactly; None if none of these does."""
    x = np.asarray(x)
    if not x.size or x.dtype.kind not in "biuf":
        return None
    first = x.reshape(-1)[0]
    if x.tobytes() == first.tobytes() * x.size:
        return Uniform(first.item())
    if x.dtype == bool:
        return _triangle(x)
    return _steps(x)


def _triangle(x: Any) -> Triangle | None:
    if x.ndim < 2:
        return None
    n, m = x.shape[-2:]
    k = int(x.reshape(-1, n, m)[0, 0].sum()) - 1
    return Triangle(k) if (x == np.tri(n, m, k, dtype=bool)).all() else None


def _steps(x: Any) -> Steps | None:
    if x.dtype.kind not in "iu":
        return None
    wide = [a for a, n in enumerate(x.shape) if n > 1]
    for axis in wide:
        line: Any = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)[:, 0]
        start, step = int(line[0]), int(line[1]) - int(line[0])
        count: int = x.shape[axis]
        column = start + step * np.arange(count)
        others = [a for a in range(x.ndim) if a != axis]
        if np.array_equal(x, np.broadcast_to(np.expand_dims(column, others), x.shape)):
            return Steps(axis, start, step)
    return None
