"""Convolutions by kernels that read padded arrays in place; see `shifted_products.py`.

Each function computes one form of `convolution_forms.py`, some examples at a time.

Notation: N batch, n examples at a time, G groups, C channels in, O channels out, K kernel places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from chainrule.engine.op import Array
from chainrule.ops.windows.convolution_layouts import (
    Tiles,
    backward,
    chunks,
    forward,
    padded_size,
    tile_of,
    weight_sums,
)
from chainrule.ops.windows.padded_runs import PaddedRuns
from chainrule.ops.windows.row_copies import window_call
from chainrule.ops.windows.shifted_products import (
    product_call,
    sum_call,
    tile_rows,
    tile_width,
    turning_call,
)
from chainrule.ops.windows.windows import Windows


def _blocks(x: Array, groups: int) -> list[slice]:
    """Blocks of (G, B, ...), so many at a time that they stay in a cache, if there is one group."""
    return chunks(x.shape[1], x[0, 0].nbytes) if groups == 1 else [slice(None)]


def _packed(w: Array) -> Array:
    """(G, rows, K) -> (G, B, K, rows of a tile), with rows of zeros at the end."""
    groups, rows, terms = w.shape
    high = tile_rows(rows)
    blocks = -(-rows // high)
    if rows % high:
        more = np.zeros((groups, blocks * high, terms), w.dtype)
        more[:, :rows] = w
        w = more
    return np.ascontiguousarray(w.reshape(groups, blocks, high, terms).swapaxes(2, 3))


def _products(tiles: Tiles, p: Array, w: Array) -> Array:
    """(G, rows, positions), also of those where there is no window, from padded runs and packed
    weights (G, B, K, rows of a tile)."""
    groups, blocks, _, high = w.shape
    width = tile_width(p.dtype, high)
    start = tiles.starts(width)
    y = np.empty((groups, blocks, high, len(start), width), p.dtype)
    for part in _blocks(w, groups):
        here = w[:, part]
        run = product_call(p.dtype, p.shape, here.shape, len(start))
        run.into((p, here, tiles.offset, start), [y[:, part]])
    return y.reshape(groups, blocks * high, -1)


def _of_windows(tiles: Tiles, seen: Array, y: Array) -> None:
    """Fill y (n, G, rows, *counts) with the products that windows have."""
    room = y.shape[2], y.shape[-1]
    run = window_call(y.dtype, seen.shape, tiles.rows.shape, room)
    run.into((seen, tiles.rows, np.empty(room, np.int64)), [y])


def _padded(runs: PaddedRuns, part: Array, kept: dict[int, Array]) -> Array:
    """The padded runs of some examples, in memory of as many that came before, if there is any."""
    memory = kept.get(len(part))
    if memory is None:
        memory = kept[len(part)] = np.empty(runs.size(part.shape[1]), part.dtype)
    runs.fill(memory, part)
    return memory


def _grouped(y: Array, groups: int) -> Array:
    """(n, channels, *size) -> (n, G, channels / G, *size)."""
    return y.reshape(len(y), groups, y.shape[1] // groups, *y.shape[2:])


# --- (x, w) -> y ---------------------------------------------------------------------------------


def convolved(x: Array, w: Array, y: Array, windows: Windows, groups: int) -> Array:
    """y (N, O, *out), filled with the convolution of x (N, C, *size) with w (O, C / G, *kernel)."""
    packed = _packed(w.reshape(groups, w.shape[0] // groups, -1))
    kept: dict[int, Array] = {}
    for chunk in chunks(len(x), padded_size(windows, x.shape[1], x.itemsize)):
        part = x[chunk]
        tiles = forward(windows, len(part), x.shape[1], groups)
        seen = _products(tiles, _padded(tiles.runs, part, kept), packed)
        _of_windows(tiles, seen, _grouped(y[chunk], groups))
    return y


# --- (g, w) -> x ---------------------------------------------------------------------------------


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
        back = backward(windows, len(part), g.shape[1], groups)
        weights = weights or [
            _packed(_of_places(w, residue.places, groups)) for residue, _ in back.residues
        ]
        memory = _padded(back.runs, part, kept)
        to = _grouped(x[chunk], groups)
        if not back.is_whole:
            to[...] = 0
        for (residue, tiles), packed in zip(back.residues, weights, strict=True):
            seen = _products(tiles, memory, packed)
            if residue.counts == [*windows.size]:
                _of_windows(tiles, seen, to)
                continue
            each = tiles.runs.windowed(seen[:, :rows])
            to[(..., *residue.at)] = each[(..., *map(slice, residue.counts))]
    return x


# --- (x, g) -> w ---------------------------------------------------------------------------------


def weights(x: Array, g: Array, w: Array, windows: Windows, groups: int) -> Array:
    """w (O, C / G, *kernel), filled with the sums of what each weight is multiplied with in x
    (N, C, *size), times g (N, O, *out)."""
    rows, terms = w.shape[0] // groups, math.prod(w.shape[1:])
    width = tile_of(rows, tile_width(x.dtype))
    blocks = -(-rows // width)
    total: Array | None = None
    kept: dict[int, Array] = {}
    turned: dict[int, Array] = {}
    for chunk in chunks(len(x), padded_size(windows, x.shape[1], x.itemsize)):
        part = x[chunk]
        runs, offset, start = weight_sums(windows, len(part), x.shape[1], groups)
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
