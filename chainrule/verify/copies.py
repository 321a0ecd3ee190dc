"""Copies that user code may write into: with the strides of the original, and noticed if it does.

Whether a backward depends on the memory order of its cotangent, and whether it writes into it, are
both to be seen; so it gets arrays that lie in memory like the ones given, but are its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from chainrule.verify.subject import Array


def twin(x: Any) -> Any:
    """A copy of the array `x` that has its strides; what is no array is copied deeply."""
    if not isinstance(x, np.ndarray):
        return _deep(x)
    array = cast("Array", x)
    if array.flags.c_contiguous or array.dtype.hasobject:
        return array.copy()
    low, high = np.lib.array_utils.byte_bounds(array)
    if high - low > 4 * array.nbytes + 64:  # a view far spread out: its neighbours are not copied
        return array.copy(order="K")
    start = array.__array_interface__["data"][0] - low
    # Code that takes it for contiguous reads wrong numbers, and no memory of others.
    memory = np.zeros(max(high - low, start + array.nbytes), np.uint8)
    out: Array = np.ndarray(array.shape, array.dtype, memory, start, array.strides)
    out[...] = array
    out.flags.writeable = array.flags.writeable or 0 not in array.strides
    return out


def _deep(x: Any) -> Any:
    """A deep copy, or `x` itself where Python cannot copy it (a module, a lock)."""
    if x is None or isinstance(x, bool | int | float | complex | str):
        return x
    try:
        return copy.deepcopy(x)
    except Exception:
        return x


def twins(xs: Iterable[Any]) -> list[Any]:
    """A copy of each."""
    return [twin(x) for x in xs]


def names_written(
    names: Sequence[str], before: Sequence[Any], after: Sequence[Any]
) -> tuple[str, ...]:
    """The names of those arrays whose elements are not what they were, bit by bit."""
    return tuple(
        [n for n, a, b in zip(names, before, after, strict=True) if _arrays(a, b) and _differ(a, b)]
    )


def left_by_forward(xs: Sequence[Any], after: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
    """What a backward finds, and is to leave: inputs as they were, and buffers, which get no
    gradient, as the forward leaves them (`after`): running statistics are such."""
    return [y if bar is None else x for x, y, bar in zip(xs, after, bars, strict=True)]


def _arrays(a: Any, b: Any) -> bool:
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray)


def _differ(a: Array, b: Array) -> bool:
    return a.shape != b.shape or a.dtype != b.dtype or a.tobytes() != b.tobytes()
