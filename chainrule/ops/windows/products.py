"""Matrix products with what windows see, a few examples at a time in memory that is used again.

For each kernel offset, the columns of windows at every index of a padded row are one contiguous run
of the padded array. Such a run is copied several times as fast as a row at a time. Some windows
would wrap around an end. Where stride is 1 and rows are long, their few columns are computed too,
and left out of the result (`wide`).

Notation: N batch, C channels, K kernel places, L columns, G groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chainrule.engine.dtypes import Dtype
from chainrule.engine.op import Array
from chainrule.ops.shapes.shaping import Shape
from chainrule.ops.windows.windows import Windows

_CACHE = 1 << 21
"""Bytes of columns that are made at a time: about what stays in a core's cache."""
_WASTE = 1.2
"""How many times as many columns there may be, so that they are copied as runs."""


def _steps(shape: Shape) -> Shape:
    """The strides, in elements, of an array in C's order."""
    return tuple([math.prod(shape[i + 1 :]) for i in range(len(shape))])


@lru_cache(maxsize=256)
def columns_of(windows: Windows, groups: int) -> Columns:
    """The columns of these windows; they hold no arrays."""
    return Columns(windows, groups)


@final
class Columns:
    """The columns of the windows over arrays (N, C, *size), in G groups of channels."""

    def __init__(self, windows: Windows, groups: int) -> None:
        self.windows, self._groups = windows, groups
        self._places = math.prod(windows.kernel)
        last = [(n - 1) * s for n, s in zip(windows.out, _steps(windows.padded), strict=True)]
        run, count = 1 + sum(last), math.prod(windows.out)
        self.wide = set(windows.stride) == {1} and run <= _WASTE * count
        self.count = run if self.wide else count
        steps = _steps(windows.padded)
        self._inner = [s * d for s, d in zip(steps, windows.dilation, strict=True)]
        outer = [s * d for s, d in zip(steps, windows.stride, strict=True)]
        self._outer = outer[-1:] if self.wide else outer
        self._shape: Shape = (*windows.kernel, *((run,) if self.wide else windows.out))
        self._spots = windows.inner()

    def runs(self, x: Array) -> list[slice]:
        """The examples of x, so many at a time that their columns stay in a cache."""
        size = x.shape[1] * self._places * self.count * x.itemsize
        step = max(_CACHE // max(size, 1), 1)
        return [slice(i, i + step) for i in range(0, len(x), step)]

    def chunks(self, x: Array) -> Iterator[tuple[slice, Array]]:
        """Some examples, and their columns (n, G, C / G K, L), which last until the next ones."""
        w = self.windows
        runs = self.runs(x)
        memory: Array | None = None
        padded: Array | None = None
        for run in runs:
            part = x[run]
            if w.padded == w.size:
                padded = np.ascontiguousarray(part)
            else:
                if padded is None or len(padded) != len(part):
                    padded = np.zeros((*part.shape[:2], *w.padded), x.dtype)
                padded[self._spots] = part
            seen = self._seen(padded)
            if self._places == 1 and seen.flags.c_contiguous:
                yield run, self._grouped(seen)
                continue
            if memory is None or len(memory) != len(part):
                memory = np.empty(seen.shape, x.dtype)
            np.copyto(memory, seen)
            yield run, self._grouped(memory)

    def _seen(self, padded: Array) -> Array:
        """(n, C, *kernel, *out), or with one run in the place of *out."""
        strides = [s * padded.itemsize for s in (*self._inner, *self._outer)]
        shape = (*padded.shape[:2], *self._shape)
        return as_strided(padded, shape, (*padded.strides[:2], *strides), writeable=False)

    def _grouped(self, seen: Array) -> Array:
        n, c = seen.shape[:2]
        return seen.reshape(n, self._groups, c // self._groups * self._places, self.count)

    def memory(self, n: int, channels: int, dtype: Dtype) -> Array:
        """Zeros for n examples of so many channels, a value for each column."""
        return np.zeros((n, channels, self.count), dtype)

    def grouped(self, y: Array) -> Array:
        """(n, channels, L) -> (n, G, channels / G, L)."""
        return y.reshape(len(y), self._groups, y.shape[1] // self._groups, self.count)

    def windowed(self, y: Array) -> Array:
        """(n, channels, L) -> (n, channels, *out): a view of the columns that are windows."""
        w = self.windows
        steps = _steps(w.padded if self.wide else w.out)
        strides = [s * y.itemsize for s in steps]
        return as_strided(y, (*y.shape[:2], *w.out), (*y.strides[:2], *strides))
