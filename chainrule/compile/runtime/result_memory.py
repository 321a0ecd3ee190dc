"""Arrays for the results of calls; a large one's memory is used again when nobody sees it.

The system hands out large memory page by page, each zeroed when it is first touched, and takes it
back when the array dies. That is as slow as some kernels. In a loop `out = step(x)` the results of
the call before the last are dead when the next call begins. Their memory becomes that of its
results. A program keeps the memory of one call at most, and none for results that somebody holds on
to. It gives it back to the system when it dies itself.

Whoever sees an array (a view, a `memoryview`, another library) keeps it alive, and an array keeps
alive what lends its memory. So memory comes back when the last of them is gone, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, final

import numpy as np

from chainrule.engine.op import Array

LARGE = 1 << 17
"""Bytes from which on memory is lent: where malloc begins to ask the system for each array."""
ALIGN = 64
"""Lent memory begins at a multiple of this: no vector lies across two cache lines."""

Shapes = Sequence[tuple[tuple[int, ...], Any]]
"""Shapes and dtypes of results."""
_Plan = list[tuple[tuple[int, ...], Any, bool]]
"""The same, and whether their memory is lent."""

_empty, _asarray = np.empty, np.asarray


@final
class Lent:
    """What an array's memory is lent by: NumPy asks it where the memory is, and keeps it as the
    array's base. `home` takes the memory back, if it has none."""

    __slots__ = ("__array_interface__", "_home", "_memory")

    def __init__(self, memory: Array, where: Any, home: list[Any]) -> None:
        self._memory, self._home = memory, home
        self.__array_interface__ = where

    def __del__(self) -> None:
        if not self._home:
            self._home.append((self._memory, self.__array_interface__))


@final
class Lender:
    """Makes the arrays that the calls of one program return."""

    def __init__(self) -> None:
        self._latest: tuple[_Plan, list[list[Any]]] = [], []

    def maker(self, shapes: Shapes) -> Callable[[], list[Array]]:
        """What makes new arrays of these shapes and dtypes, their values anything."""
        plan = [(shape, dtype, is_lent(shape, dtype)) for shape, dtype in shapes]
        if any(lent for *_, lent in plan):
            return lambda: self._allocate(plan)
        return lambda: [_empty(shape, dtype) for shape, dtype in shapes]

    def maker_of_one(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Array]:
        """What makes one new array."""
        if is_lent(shape, dtype):
            make = self.maker([(shape, dtype)])
            return lambda: make()[0]
        return partial(_empty, shape, dtype)

    def _allocate(self, plan: _Plan) -> list[Array]:
        before, homes = self._latest
        if plan is not before:
            self._give_back()  # what calls of other sizes left
            homes = [list[Any]() for _ in plan]
            self._latest = plan, homes
        return [
            _lent(shape, dtype, home) if lent else _empty(shape, dtype)
            for (shape, dtype, lent), home in zip(plan, homes, strict=True)
        ]

    def _give_back(self) -> None:
        # results that are still seen know where they come from, too
        for home in self._latest[1]:
            home.clear()

    def __del__(self) -> None:
        self._give_back()


def is_lent(shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether it is large, and of a dtype that an array's interface has a word for."""
    return prod(shape) * dtype.itemsize >= LARGE and np.dtype(dtype.str) == dtype


def _lent(shape: tuple[int, ...], dtype: Any, home: list[Any]) -> Array:
    """An array in the memory at home, or in new memory."""
    try:
        memory, where = home.pop()  # in one step: another thread may be here, too
    except IndexError:
        size = prod(shape) * dtype.itemsize
        memory = _empty(size + ALIGN, np.uint8)
        start = -memory.ctypes.data % ALIGN
        part = memory[start : start + size].view(dtype).reshape(shape)
        where = part.__array_interface__
    return _asarray(Lent(memory, where, home))
