"""Convolutions by kernels that read padded arrays in place; see `shifted_products.py`.

Each function computes one form of `convolution_forms.py`, some examples at a time.

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
from chainrule.ops.windows.row_copies import window_call
from chainrule.ops.windows.shifted_products import (
    ROWS,
    product_call,
    sum_call,
    tile_width,
    turning_call,
)
from chainrule.ops.windows.windows import Windows

_NEAR = 1 << 19
"""Bytes of a padded array, or of weights, that are worked on at a time: they stay in a cache."""


def chunks(count: int, size: int) -> list[slice]:
    """So many examples of `size` bytes each, some at a time, in chunks that are about equal."""
    parts = -(-count // max(_NEAR // max(size, 1), 1))
    each = -(-count // max(parts, 1)) if count else 1
    return [slice(i, min(i + each, count)) for i in range(0, count, each)]


def _blocks(x: Array, groups: int) -> list[slice]:
    """Blocks of (G, B, ...), so many at a time that they stay in a cache, if there is one group."""
    return chunks(x.shape[1], x[0, 0].nbytes) if groups == 1 else [slice(None)]


def _packed(w: Array) -> Array:
    """(G, rows, K) -> (G, B, K, ROWS), with rows of zeros at the end."""
    groups, rows, terms = w.shape
    blocks = -(-rows // ROWS)
    if rows % ROWS:
        more = np.zeros((groups, blocks * ROWS, terms), w.dtype)
        more[:, :rows] = w
        w = more
    return np.ascontiguousarray(w.reshape(groups, blocks, ROWS, terms).swapaxes(2, 3))


@final
class _Product:
    """Weights times all that windows see, in one layout of the padded array."""

    def __init__(self, runs: PaddedRuns, channels: int, groups: int, shifts: Shifts) -> None:
        self._runs = runs
        self._offset = runs.offsets(channels, shifts).reshape(groups, -1)
        self._rows = runs.starts()
        self._starts: dict[int, Array] = {}

    def into(self, y: Array, p: Array, w: Array) -> None:
        """Fill y (n, G, rows, *counts) from padded runs and packed weights (G, B, K, ROWS)."""
        seen = self._products(p, w)
        room = y.shape[2], y.shape[-1]
        run = window_call(p.dtype, seen.shape, self._rows.shape, room)
        run.into((seen, self._rows, np.empty(room, np.int64)), [y])

    def of_windows(self, p: Array, w: Array, rows: int) -> Array:
        """The same: a view (n, G, rows, *counts) of memory in which it is spread out."""
        return self._runs.windowed(self._products(p, w)[:, :rows])

    def _products(self, p: Array, w: Array) -> Array:
        """(G, rows, positions), also of those where there is no window."""
        width = tile_width(p.dtype)
        start = self._starts.get(width)
        if start is None:
            start = self._starts[width] = np.arange(0, self._runs.length, width)
        groups, blocks = w.shape[:2]
        y = np.empty((groups, blocks, ROWS, len(start), width), p.dtype)
        for part in _blocks(w, groups):
            here = w[:, part]
            run = product_call(p.dtype, p.shape, here.shape, len(start))
            run.into((p, here, self._offset, start), [y[:, part]])
        return y.reshape(groups, blocks * ROWS, -1)


def _padded(runs: PaddedRuns, part: Array, kept: dict[int, Array]) -> Array:
    """The padded runs of some examples, in memory of as many that came before, if there is any."""
    memory = kept.get(len(part))
    if memory is None:
        memory = runs.memory(part.shape[1], part.dtype, tile_width(part.dtype))
        kept[len(part)] = memory
    runs.fill(memory, part)
    return memory


def _grouped(y: Array, groups: int) -> Array:
    """(n, channels, *size) -> (n, G, channels / G, *size)."""
    return y.reshape(len(y), groups, y.shape[1] // groups, *y.shape[2:])


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
def _forward(windows: Windows, n: int, channels: int, groups: int) -> tuple[PaddedRuns, _Product]:
    runs = _runs_of(windows, n)
    return runs, _Product(runs, channels, groups, _seen(windows))


def forward_tiles(windows: Windows) -> tuple[int, Shape]:
    """Positions that are computed for an example, and residues of each axis that are copied."""
    runs = _runs_of(windows, 1)
    return runs.image, runs.residues


def _padded_size(windows: Windows, x: Array) -> int:
    """Bytes of an example with its padding."""
    return x.shape[1] * math.prod(windows.padded) * x.itemsize


def convolved(x: Array, w: Array, y: Array, windows: Windows, groups: int) -> Array:
    """y (N, O, *out), filled with the convolution of x (N, C, *size) with w (O, C / G, *kernel)."""
    rows = w.shape[0] // groups
    packed = _packed(w.reshape(groups, rows, -1))
    kept: dict[int, Array] = {}
    for chunk in chunks(len(x), _padded_size(windows, x)):
        part = x[chunk]
        runs, times = _forward(windows, len(part), x.shape[1], groups)
        times.into(_grouped(y[chunk], groups), _padded(runs, part, kept), packed)
    return y


# --- (g, w) -> x ---------------------------------------------------------------------------------


@final
class _Residue:
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
class _Backward:
    """All residues of x, and one layout of g for them."""

    def __init__(self, windows: Windows, n: int, channels: int, groups: int) -> None:
        every = [_Residue(windows, r) for r in product(*map(range, windows.stride))]
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
        self.residues = [(p, self._product(p, before, channels, groups)) for p in residues]

    def _product(self, p: _Residue, before: list[int], channels: int, groups: int) -> _Product:
        pairs = zip(p.windows, before, strict=True)
        return _Product(self.runs, channels, groups, [[z + b for z in zs] for zs, b in pairs])


@lru_cache(maxsize=256)
def _backward(windows: Windows, n: int, channels: int, groups: int) -> _Backward:
    return _Backward(windows, n, channels, groups)


def backward_tiles(windows: Windows) -> tuple[int, list[int]]:
    """Positions that are computed for an example in each residue, and the kernel places of each."""
    back = _backward(windows, 1, 1, 1)
    return back.runs.image, [math.prod(map(len, p.places)) for p, _ in back.residues]


def _of_places(w: Array, places: Sequence[Sequence[int]], groups: int) -> Array:
    """(O, C / G, *kernel) -> (G, C / G, O / G places): for each channel in, what it is seen by."""
    some = w if all(len(p) == k for p, k in zip(places, w.shape[2:], strict=True)) else None
    if some is None:
        some = w[(slice(None), slice(None), *np.ix_(*places))]
    parts = some.reshape(groups, w.shape[0] // groups, w.shape[1], -1).swapaxes(1, 2)
    return parts.reshape(groups, w.shape[1], -1)


def transposed(g: Array, w: Array, x: Array, windows: Windows, groups: int) -> Array:
    """x (N, C, *size), filled with the transpose of the convolution with w, of g (N, O, *out)."""
    rows = w.shape[1]
    weights: list[Array] = []
    kept: dict[int, Array] = {}
    for chunk in chunks(len(g), g[:1].nbytes):
        part = g[chunk]
        back = _backward(windows, len(part), g.shape[1], groups)
        weights = weights or [
            _packed(_of_places(w, residue.places, groups)) for residue, _ in back.residues
        ]
        memory = _padded(back.runs, part, kept)
        to = _grouped(x[chunk], groups)
        if not back.is_whole:
            to[...] = 0
        for (residue, times), packed in zip(back.residues, weights, strict=True):
            if residue.counts == [*windows.size]:
                times.into(to, memory, packed)
                continue
            seen = times.of_windows(memory, packed, rows)
            to[(..., *residue.at)] = seen[(..., *map(slice, residue.counts))]
    return x


# --- (x, g) -> w ---------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _weights(
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


def weights(x: Array, g: Array, w: Array, windows: Windows, groups: int) -> Array:
    """w (O, C / G, *kernel), filled with the sums of what each weight is multiplied with in x
    (N, C, *size), times g (N, O, *out)."""
    rows, terms = w.shape[0] // groups, math.prod(w.shape[1:])
    width = tile_of(rows, tile_width(x.dtype))
    blocks = -(-rows // width)
    total: Array | None = None
    kept: dict[int, Array] = {}
    turned: dict[int, Array] = {}
    for chunk in chunks(len(x), _padded_size(windows, x)):
        part = x[chunk]
        runs, offset, start = _weights(windows, len(part), x.shape[1], groups)
        memory = _padded(runs, part, kept)
        v = turned.get(len(part))
        if v is None:
            shape = (groups, blocks, len(start), windows.out[-1], width)
            v = turned[len(part)] = np.zeros(shape, x.dtype)
        _turn(g[chunk], v, groups, rows)
        y = np.empty((groups, blocks, *offset.shape[1:], width), x.dtype)
        for blocks_here in _blocks(v, groups):
            some = v[:, blocks_here]
            run = sum_call(x.dtype, memory.shape, some.shape, offset.shape)
            run.into((memory, some, offset, start), [y[:, blocks_here]])
        total = y if total is None else np.add(total, y, out=total)
    assert total is not None, "no example"
    y = total.reshape(groups, blocks, -1, width)[:, :, :terms].swapaxes(2, 3)
    w[...] = y.reshape(groups, blocks * width, terms)[:, :rows].reshape(w.shape)
    return w


def _turn(g: Array, v: Array, groups: int, rows: int) -> None:
    """g (n, O, *out) into v (G, B, n and rows of windows, places in a row, width)."""
    n, blocks, width = len(g), v.shape[1], v.shape[-1]
    to = v.reshape(groups * blocks, n, -1, width)
    if rows % width == 0:
        each = np.ascontiguousarray(g).reshape(n, groups * blocks, width, -1)
        turning_call(g.dtype, each.shape).into((each,), [to])
        return
    to = to.reshape(groups, blocks, n, -1, width)
    each = g.reshape(n, groups, rows, -1)
    for block in range(blocks):
        some = each[:, :, block * width : (block + 1) * width]
        to[:, block, ..., : some.shape[2]] = some.transpose(1, 0, 3, 2)
