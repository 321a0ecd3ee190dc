"""What a sample is: a function of arrays with arguments at which every mistake would show.

Samples are generic: sizes differ from each other, no value is 0 or 1, elements are far from each
other and from kinks (0, integers, bounds), permutations are not their own inverse.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Sample:
    """`f(*args)`, a case of the public function (or row) `name`.

    Arguments are arrays; what is neither differentiated nor has a dtype stands in `f`.
    `traceable` is false where the result's shape depends on values.
    """

    name: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    note: str = ""
    traceable: bool = True

    def __str__(self) -> str:
        shapes = ",".join("x".join(map(str, np.shape(x))) or "0d" for x in self.args)
        return f"{self.name}[{self.note + ' ' if self.note else ''}{shapes}]"


def apart(*shape: int, low: float = -2.1, high: float = 2.3, salt: int = 0) -> Array:
    """A float64 array of distinct values spread over (low, high) in random order.

    They lie on a lattice of tenths, shifted so that none is near 0, a half or an integer, and
    arrays of an even and an odd `salt` are never near each other. Where that would be too coarse,
    neighbours are (high - low) / size apart, up to a half of it.
    """
    size = int(np.prod(shape))
    rng = np.random.default_rng(zlib.crc32(repr((shape, low, high, salt)).encode()))
    gap = (high - low) / max(size, 1)
    x = low + gap * (np.arange(size) + 0.5 + rng.uniform(-0.25, 0.25, size))
    if gap > 0.2:
        x = 0.1 * np.rint(10 * x) + (0.033 if salt % 2 else 0.067)
    else:
        near = np.rint(2 * x) / 2
        margin = gap / 5
        x = np.where(np.abs(x - near) < margin, near + np.where(x < near, -margin, margin), x)
    return rng.permutation(x).reshape(shape)


def cotangent(y: Any, salt: int = 7) -> Array:
    """A random array for `y`: like a cotangent that some loss would send."""
    return apart(*y.shape, low=-1.6, high=1.9, salt=salt)
