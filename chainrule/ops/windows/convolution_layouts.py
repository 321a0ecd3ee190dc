"""Where the operands of a convolution's products are in padded runs: tables, made from windows.

Eager kernels and compiled programs are given the same tables; see `shifted_products.py`.

Notation: N batch, n examples at a time, G groups, C channels in, O channels out, K kernel places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import final

import numpy as np

from chainrule.engine.op import Array
from chainrule.ops.shapes.shaping import Shape
from chainrule.ops.windows.padded_runs import PaddedRuns, Shifts
from chainrule.ops.windows.shifted_products import ROWS
from chainrule.ops.windows.windows import Windows

NEAR = 1 << 19
"""Bytes of a padded array, or of weights, that are worked on at a time: they stay in a cache."""


def chunks(count: int, size: int) -> list[slice]:
    """So many examples of `size` bytes each, some at a time, in chunks that are about equal."""
    parts = -(-count // max(NEAR // max(size, 1), 1))
    each = -(-count // max(parts, 1)) if count else 1
    return [slice(i, min(i + each, count)) for i in range(0, count, each)]


def padded_size(windows: Windows, channels: int, itemsize: int) -> int:
    """Bytes of an example with its padding."""
    return channels * math.prod(windows.padded) * itemsize


@final
class Tiles:
    """Weights times all that windows see, in one layout of the padded array."""

    def __init__(self, runs: PaddedRuns, channels: int, groups: int, shifts: Shifts) -> None:
        self.runs = runs
        self.offset = runs.offsets(channels, shifts).reshape(groups, -1)
        """(G, K): where the first window finds the terms of a sum."""
        self.rows = runs.starts()
        """(n, all counts but the last): where rows of windows begin."""
        self._starts: dict[int, Array] = {}

    def starts(self, width: int) -> Array:
        """Where tiles of that width begin."""
        start = self._starts.get(width)
        if start is None:
            start = self._starts[width] = np.arange(0, self.runs.length, width)
        return start


# --- (x, w) -> y ---------------------------------------------------------------------------------


def _seen(windows: Windows) -> list[list[int]]:
    """Where in the padded array each kernel place of the first window is."""
    pairs = zip(windows.kernel, windows.dilation, strict=True)
    return [[i * d for i in range(k)] for k, d in pairs]


def _runs_of(windows: Windows, n: int) -> PaddedRuns:
    """n padded examples of what these windows slide over."""
    w = windows
    return PaddedRuns(n, w.size, w.padding, w.stride, w.out, _seen(w))


@lru_cache(maxsize=256)
def forward(windows: Windows, n: int, channels: int, groups: int) -> Tiles:
    """The layout of n examples of x."""
    return Tiles(_runs_of(windows, n), channels, groups, _seen(windows))


def forward_tiles(windows: Windows) -> tuple[int, Shape]:
    """Positions that are computed for an example, and residues of each axis that are copied."""
    runs = _runs_of(windows, 1)
    return runs.image, runs.residues


# --- (g, w) -> x ---------------------------------------------------------------------------------


@final
class Residue:
    """The elements of x at one remainder of z by the stride, and the kernel places that see them.

    Along an axis, place k sees z where a window stands at (z - k dilation) / stride.
    """

    def __init__(self, windows: Windows, remainders: Sequence[int]) -> None:
        self.at: list[slice] = []
        self.counts: list[int] = []
        self.places: list[list[int]] = []
        self.windows: list[list[int]] = []
        """For each axis and kernel place, the window that sees the first element so."""
        w = windows
        axes = zip(remainders, w.size, w.kernel, w.stride, w.padding, w.dilation, strict=True)
        for r, size, kernel, s, (before, _), d in axes:
            first = (r - before) % s
            self.at.append(slice(first, None, s))
            self.counts.append(len(range(first, size, s)))
            seen = [k for k in range(kernel) if (r - k * d) % s == 0]
            self.places.append(seen)
            self.windows.append([(first + before - k * d) // s for k in seen])

    @property
    def is_empty(self) -> bool:
        """Whether no element, or no window, is there."""
        return 0 in self.counts or [] in self.places


@final
class Backward:
    """All residues of x, and one layout of g for them."""

    def __init__(self, windows: Windows, n: int, channels: int, groups: int) -> None:
        self.stride = windows.stride
        every = [Residue(windows, r) for r in product(*map(range, windows.stride))]
        residues = [p for p in every if not p.is_empty]
        self.is_whole = len(residues) == len(every)
        out = windows.out
        axes = range(len(out))
        before = [max([0, *[-min(p.windows[i]) for p in residues]]) for i in axes]
        counts = tuple([max([1, *[p.counts[i] for p in residues]]) for i in axes])
        far = [max([0, *[max(p.windows[i]) + before[i] for p in residues]]) for i in axes]
        ends = zip(out, before, counts, far, strict=True)
        pads = [(b, max(0, m + count - (o + b))) for o, b, count, m in ends]
        ones = (1,) * len(out)
        self.runs = PaddedRuns(n, out, pads, ones, counts, [[m] for m in far])
        self.residues = [(p, self._tiles(p, before, channels, groups)) for p in residues]

    def _tiles(self, p: Residue, before: list[int], channels: int, groups: int) -> Tiles:
        pairs = zip(p.windows, before, strict=True)
        return Tiles(self.runs, channels, groups, [[z + b for z in zs] for zs, b in pairs])


@lru_cache(maxsize=256)
def backward(windows: Windows, n: int, channels: int, groups: int) -> Backward:
    """The layout of n examples of g."""
    return Backward(windows, n, channels, groups)


def backward_tiles(windows: Windows) -> tuple[int, list[int]]:
    """Positions that are computed for an example in each residue, and the kernel places of each."""
    back = backward(windows, 1, 1, 1)
    return back.runs.image, [math.prod(map(len, p.places)) for p, _ in back.residues]


# --- (x, g) -> w ---------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def weight_sums(
    windows: Windows, n: int, channels: int, groups: int
) -> tuple[PaddedRuns, Array, Array]:
    """The layout of x, the offsets (G, K', ROWS) of its terms, and where rows of windows begin."""
    runs = _runs_of(windows, n)
    offset = runs.offsets(channels, _seen(windows)).reshape(groups, -1)
    terms = offset.shape[1]
    padded = np.zeros((groups, -(-terms // ROWS) * ROWS), np.int64)
    padded[:, :terms] = offset
    return runs, padded.reshape(groups, -1, ROWS), runs.starts().reshape(-1)


def tile_of(rows: int, width: int) -> int:
    """How many channels out make a tile: no more than are there, in whole registers if possible."""
    while width > ROWS and width // 2 >= rows:
        width //= 2
    return width
