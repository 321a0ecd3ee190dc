"""Arrays with their padding as runs of memory, in which all windows see the same, further on.

A window that moves by one element along an axis sees the same elements of the run, so many places
on, whichever window it is. So what a kernel place sees, over all windows, is one stretch of the
run. Between images, rows and so on, the padding after one is the padding before the next. Where the
stride s is above 1, the run consists of residues: every s-th element, for each remainder at which a
window sees something.

Notation: n examples, C channels, K kernel places; z an index into an axis with its padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chainrule.engine.op import Array
from chainrule.ops.shapes.shaping import Shape
from chainrule.ops.windows.row_copies import padding_call

BEYOND = 64
"""Elements after the last window that a tile may read."""
Shifts = Sequence[Sequence[int]]
"""For each axis, where in z the first window sees something, one number for each kernel place."""


@final
class PaddedRuns:
    """Where elements of arrays (n, C, *size) stand, for `counts` windows along each axis.

    `padding` is that before and after each axis; `shifts` are all that are looked at. Memory is
    (C, residues, rows, pitch), with rows at the end for tiles that go beyond the last window.
    """

    def __init__(
        self,
        n: int,
        size: Shape,
        padding: Sequence[tuple[int, int]],
        stride: Shape,
        counts: Shape,
        shifts: Shifts,
    ) -> None:
        self._n, self._size, self.counts = n, size, counts
        self._before, self._stride = [a for a, _ in padding], stride
        axes = zip(size, padding, stride, counts, strict=True)
        self._pitch = [max(-(-(m + max(pads)) // s), count) for m, pads, s, count in axes]
        self._steps = [math.prod(self._pitch[i + 1 :]) for i in range(len(size))]
        self.image = math.prod(self._pitch)
        """Positions of an example, also of those where there is no window."""
        pairs = [*zip(shifts, stride, strict=True)]
        self._remainders = [sorted({z % s for z in zs}) for zs, s in pairs]
        self.residues = tuple([len(r) for r in self._remainders])
        """How many there are along each axis."""
        self._residues = math.prod(self.residues)
        far = [max(zs) // s * step for (zs, s), step in zip(pairs, self._steps, strict=True)]
        length = self._pitch[-1]
        self.rows = self._residues, n * (self.image // length) + -(-(sum(far) + BEYOND) // length)
        """Residues, and the rows of each."""
        self._block = self.rows[1] * length
        last = [(c - 1) * step for c, step in zip(counts, self._steps, strict=True)]
        self.length = (n - 1) * self.image + sum(last) + 1
        """Positions from the first window to the last."""
        self._tables: dict[int, tuple[Array, ...]] = {}

    @property
    def step(self) -> int:
        """How far apart in x neighbours in a row are."""
        return self._stride[-1]

    def size(self, channels: int) -> int:
        """How many elements the memory of so many channels has."""
        return channels * self._residues * self._block

    def fill(self, memory: Array, x: Array) -> None:
        """Puts x (n, C, *size) where it belongs, and zeros everywhere else."""
        n, channels = x.shape[:2]
        whole = memory.reshape(channels, *self.rows, self._pitch[-1])
        flat = np.ascontiguousarray(x).reshape(n, channels, -1)
        call = padding_call(x.dtype, self.step, flat.shape, self.rows, self._pitch[-1])
        call.into((flat, *self.row_tables(channels)), [whole])

    def row_tables(self, channels: int) -> tuple[Array, ...]:
        """What `PaddedRows` is given beside x."""
        tables = self._tables.get(channels)
        if tables is None:
            tables = self._tables[channels] = self._row_tables(channels)
        return tables

    def _row_tables(self, channels: int) -> tuple[Array, ...]:
        """For each residue and row of the memory where in x it begins, and which of its elements
        are there."""
        sides = [self._seen_of(axis) for axis in range(len(self._size))]
        lines = self._pitch[:-1]
        first = np.zeros(self.rows, np.int64)
        low, high = np.zeros(first.shape, np.int32), np.zeros(first.shape, np.int32)
        size = math.prod(self._size)
        image = np.arange(self._n, dtype=np.int64) * (channels * size)
        for residue, each in enumerate(product(*[range(len(r)) for r in self._remainders])):
            place, seen = image, np.ones(self._n, np.bool_)
            for axis, count in enumerate(lines):
                start, a, b = sides[axis][each[axis]]
                i = np.arange(count)
                step = math.prod(self._size[axis + 1 :])
                place = np.add.outer(place, (i * self._stride[axis] + start) * step)
                seen = np.logical_and.outer(seen, (a <= i) & (i < b))
            start, a, b = sides[-1][each[-1]]
            rows = slice(0, place.size)
            first[residue, rows] = place.reshape(-1) + start
            low[residue, rows], high[residue, rows] = a, np.where(seen.reshape(-1), b, 0)
        return first, low, high, np.zeros(self._pitch[-1], np.int64)

    def _seen_of(self, axis: int) -> list[tuple[int, int, int]]:
        """For each remainder of an axis the index in x at which its run would begin, and from which
        of its elements on, up to which, x has elements."""
        n, a, s = self._size[axis], self._before[axis], self._stride[axis]
        return [
            (r - a, -(-max(a - r, 0) // s), (n - 1 + a - r) // s + 1)
            for r in self._remainders[axis]
        ]

    def offsets(self, channels: int, shifts: Shifts) -> Array:
        """(C, K): where the first window finds what each kernel place of each channel sees."""
        total = np.zeros((), np.int64)
        for axis, (zs, s) in enumerate(zip(shifts, self._stride, strict=True)):
            known = self._remainders[axis]
            residue = np.array([known.index(z % s) for z in zs], np.int64)
            inner = math.prod(self.residues[axis + 1 :])
            each = np.array(zs, np.int64) // s * self._steps[axis]
            total = np.add.outer(total, each + residue * (inner * self._block))
        channel = np.arange(channels, dtype=np.int64) * (self._residues * self._block)
        return np.add.outer(channel, total.reshape(-1))

    def starts(self) -> Array:
        """(n, all counts but the last): where rows of windows begin."""
        total = np.arange(self._n, dtype=np.int64) * self.image
        for count, step in zip(self.counts[:-1], self._steps[:-1], strict=True):
            total = np.add.outer(total, np.arange(count) * step)
        return total.reshape(self._n, -1)

    def windowed(self, y: Array) -> Array:
        """(G, channels, positions) -> (n, G, channels, *counts): a view of what windows have."""
        steps = [s * y.itemsize for s in (self.image, *self._steps)]
        shape = (self._n, *y.shape[:2], *self.counts)
        return as_strided(y, shape, (steps[0], *y.strides[:2], *steps[1:]))
