"""What of an array a trace keeps: a copy, or a summary of a large one."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from chainrule.engine.arrays import holds_numbers
from chainrule.traces.trace import Kept, Summary

MAX_ELEMENTS = 4096
"""Arrays of more elements are kept as summaries, if nothing else is said."""


def is_array(x: Any) -> bool:
    """Whether `x` is an array of NumPy."""
    return isinstance(x, np.ndarray)


@final
class Keeper:
    """Copies arrays of at most `limit` elements (None: of any size) and summarises the others."""

    def __init__(self, limit: int | None = MAX_ELEMENTS) -> None:
        self.limit = limit

    def takes(self, size: int) -> bool:
        """Whether an array of so many elements is kept whole."""
        return self.limit is None or size <= self.limit

    def keep(self, x: Any) -> Kept:
        """A read-only copy, a summary, or None for what is no array of numbers."""
        if x is None or isinstance(x, tuple):
            return None
        array = np.asarray(x)
        if not holds_numbers(array.dtype):
            return None
        if not self.takes(array.size):
            return summary(array)
        copy = np.array(array)
        copy.setflags(write=False)
        return copy


def summary(array: Any) -> Summary:
    """Statistics of an array of numbers."""
    kind = array.dtype.kind
    numbers = np.abs(array) if kind == "c" else array.astype(np.float64)
    fine = numbers[np.isfinite(numbers)]
    low, high, mean = (fine.min(), fine.max(), fine.mean()) if fine.size else (0, 0, 0)
    largest = np.abs(fine).max() if fine.size else 0
    norm = largest and min(largest * np.linalg.norm(fine / largest), np.finfo(np.float64).max)
    bad = numbers.size - fine.size
    shape = tuple(array.shape)
    return Summary(str(array.dtype), shape, *map(float, (low, high, mean, norm)), not_finite=bad)


def is_unchanged(kept: Kept, value: Any) -> bool:
    """Whether `value` is still what was kept of it."""
    if isinstance(kept, Summary):
        return kept == summary(value)
    if kept is None:
        return True
    same = kept.shape == value.shape and kept.dtype == value.dtype
    return same and kept.tobytes() == value.tobytes()
