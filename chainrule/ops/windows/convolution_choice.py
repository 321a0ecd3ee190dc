"""Which way of computing a convolution takes less time; see `convolution_forms.py`.

Both times are estimated from shapes and dtypes alone, so that equal calls give equal bits. They are
sums of what a way does, each with its time: multiply-adds, elements that are copied, rows of them,
calls. The times were measured beside each other, for float32; those of float64 are twice as long.
Only their ratios count: which way takes less time.

| in place | by columns |
|---|---|
| whole tiles are computed, also what is left out of them | no more than is needed |
| operands and results are copied once | what windows see is copied, for each kernel place |
| a call for each residue of a stride | a call of BLAS for each example and group |

Notation: N batch, G groups, C channels in, O channels out, K kernel places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from chainrule.engine.dtypes import float32, float64
from chainrule.engine.op import Array
from chainrule.ops.eager_kernels import has_kernels
from chainrule.ops.shapes.shaping import Shape
from chainrule.ops.windows.convolution_layouts import (
    backward_tiles,
    chunks,
    forward_tiles,
    tile_of,
)
from chainrule.ops.windows.shifted_products import BYTES, ROWS, tile_rows
from chainrule.ops.windows.windows import Windows

_IN_PLACE, _BY_BLAS, _BY_LOOPS = 0.01, 0.022, 0.03
"""Nanoseconds of a multiply-add: in place, by BLAS, in compiled code."""
_COPY, _ROW, _SEEN, _ADDED, _TURN, _SQUARES = 0.06, 1.8, 0.2, 0.7, 1.0, 0.08
"""Nanoseconds of an element that is copied, of a row of them, of an element that windows see, of
one that is added to what windows see, of one that changes rows with columns, of one among many."""
_FEW = {1: 3.2, 2: 1.5}
"""How much longer multiply-adds take in tiles of few rows."""
_CALL, _SLICE, _PRODUCT, _RESULT = 5000.0, 2000.0, 200.0, 0.15
"""Nanoseconds of a kernel's call and what belongs to it, of one of NumPy's that copies a slice, of
one of BLAS among others, of an element of its result."""


def reads_in_place(
    result: str, operands: Mapping[str, Array], windows: Windows, groups: int
) -> bool:
    """Whether kernels that read windows where they are compute the form that gives `result`, one of
    "x", "w", "g". `operands` are its inputs and its result by their roles."""
    x, w, g = [operands[role] for role in "xwg"]
    if x.dtype != w.dtype or x.dtype != g.dtype or x.dtype not in (float32, float64):
        return False
    if not (x.size and w.size and g.size) or not has_kernels():
        return False
    return pays_in_place(result, windows, groups, x.shape[:2], g.shape[1], x.dtype.itemsize)


@lru_cache(maxsize=1024)
def pays_in_place(
    result: str,
    windows: Windows,
    groups: int,
    x: Shape,
    outs: int,
    size: int,
    *,
    compiled: bool = False,
) -> bool:
    """Of x (N, C, *size) and O channels out, of numbers of so many bytes. Small examples, as one
    types them, take no time by columns, so that they load and compile nothing. Compiled programs
    call nothing, but each of their kernels takes time to compile."""
    in_place = {"g": _forward, "x": _backward, "w": _weights}[result]
    time, calls = in_place(windows, groups, x, outs, size)
    each = _BY_LOOPS if compiled else _BY_BLAS
    total = time + (calls / 4 if compiled else calls)
    return total < _columns(result, windows, groups, x, outs, each)


def _tiled(n: int, by: int) -> int:
    """What tiles of so many compute for n."""
    return -(-n // by) * by


def _rows(n: int) -> float:
    """As how many rows of full tiles n of them count."""
    high = tile_rows(n)
    return _tiled(n, high) * _FEW.get(high, 1.0)


def _copies(count: int, size: Shape, residues: int = 1) -> float:
    """Time to copy so many images into or out of a padded array."""
    return math.prod(size) * count * _COPY + math.prod(size[:-1]) * count * residues * _ROW


def _calls(n: int, size: int, products: int, slices: int) -> float:
    """Time of calls for n examples of `size` bytes; so many of each kind for a chunk of them."""
    return len(chunks(n, size)) * (products * _CALL + slices * _SLICE)


def _forward(w: Windows, groups: int, x: Shape, outs: int, size: int) -> tuple[float, float]:
    n, channels = x
    positions, residues = forward_tiles(w)
    terms = channels // groups * math.prod(w.kernel)
    sums = n * positions * groups * _rows(outs // groups) * terms
    copied = _copies(n * channels, w.size, residues[-1]) + _copies(n * outs, w.out)
    calls = _calls(n, channels * math.prod(w.padded) * size, 1, math.prod(residues) - 1)
    return sums * _IN_PLACE + copied, calls


def _backward(w: Windows, groups: int, x: Shape, outs: int, size: int) -> tuple[float, float]:
    n, channels = x
    positions, places = backward_tiles(w)
    terms = outs // groups * sum(places)
    sums = n * positions * groups * _rows(channels // groups) * terms
    copied = _copies(n * outs, w.out) + _copies(n * channels, w.size, w.stride[-1])
    calls = _calls(n, outs * math.prod(w.out) * size, len(places), len(places) - 1)
    return sums * _IN_PLACE + copied, calls


def _weights(w: Windows, groups: int, x: Shape, outs: int, size: int) -> tuple[float, float]:
    n, channels = x
    rows, full, (_, residues) = outs // groups, BYTES // size, forward_tiles(w)
    width = tile_of(rows, full)
    terms = _tiled(channels // groups * math.prod(w.kernel), ROWS)
    # half a register takes as long as one
    wide = _tiled(rows, width) // width * max(width, full // 2)
    count = n * math.prod(w.out)
    turned = count * outs * (_TURN if rows % width else _SQUARES)
    copied = _copies(n * channels, w.size, residues[-1]) + turned
    calls = _calls(n, channels * math.prod(w.padded) * size, 1, math.prod(residues))
    return count * groups * terms * wide * _IN_PLACE + copied, calls


def _columns(
    result: str, w: Windows, groups: int, x: Shape, outs: int, multiply_add: float
) -> float:
    """About how long a convolution by columns takes: their copy, and the matrix product."""
    n, channels = x
    places, count = math.prod(w.kernel), math.prod(w.out)
    terms = (channels // groups) * places
    sums = n * count * outs * terms
    copied = 0.0
    if places > 1 or w.padded != w.size or set(w.stride) != {1}:
        seen, each, rest = channels, _SEEN, outs
        if result == "x":
            back = w.reversed() is not None and outs <= 2 * channels
            seen, each, rest = (outs, _SEEN, channels) if back else (channels, _ADDED, 0)
        copied = n * count * (seen * places * each + rest * _COPY)
    return sums * (multiply_add + _RESULT / terms) + copied + n * groups * _PRODUCT
