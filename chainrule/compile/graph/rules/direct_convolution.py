"""Convolutions as products that read padded arrays in place, as in eager code.

The layouts are those of `chainrule.ops.windows.convolution_layouts`, some examples at a time: what
one product leaves is in a cache when the next op reads it. See `chainrule.ops.windows`.

Notation: as in `chainrule.ops.windows.direct_convolution`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.rewriter import Rewriter
from chainrule.compile.graph.terms import Term
from chainrule.ops import elementwise as ew
from chainrule.ops.shapes.joining import Concat
from chainrule.ops.shapes.shaping import Permute, Reshape
from chainrule.ops.shapes.slices import Slice
from chainrule.ops.windows.convolution_choice import pays_in_place
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
from chainrule.ops.windows.row_copies import PaddedRows, WindowRows
from chainrule.ops.windows.shifted_products import (
    ShiftedProduct,
    ShiftedSum,
    Turned,
    tile_rows,
    tile_width,
)
from chainrule.ops.windows.windows import Windows


def pays(r: Rewriter, result: str, op: Any, channels: int, outs: int, x: Term) -> bool:
    """Whether the form of the op that gives `result` takes less time so; `x` is one of its
    operands. Sizes must be known."""
    if r.sizes_vary or x.dtype.char not in "fd":
        return False
    if not all(isinstance(n, int) for n in (*x.shape, channels, outs)):
        return False
    shape = (x.shape[0], channels)
    size = x.dtype.itemsize
    return pays_in_place(result, op.windows, op.groups, shape, outs, size, compiled=True)


def _reshaped(r: Rewriter, x: Term, shape: Sequence[int]) -> Term:
    """x in that shape; -1 is what is left."""
    known = math.prod([n for n in shape if n != -1])
    full = tuple([math.prod(x.shape) // known if n == -1 else n for n in shape])
    return r.op(Reshape(full), x)


def _padded(r: Rewriter, runs: PaddedRuns, x: Term, start: int) -> Term:
    """The padded runs of some examples of x, from that one on."""
    n, channels = x.shape[:2]
    first, *rest = runs.row_tables(channels)
    size = math.prod(x.shape[1:])
    flat = _reshaped(r, x, (n, channels, size // channels))
    tables = [r.constant(a) for a in (first + start * size, *rest)]
    made = r.op(PaddedRows(runs.step), flat, *tables)
    return _reshaped(r, made, (runs.size(channels),))


def _longer(r: Rewriter, x: Term, axis: int, by: int) -> Term:
    """x, a multiple of `by` long along an axis: with zeros at the end."""
    more = -x.shape[axis] % by
    if not more:
        return x
    shape = (*x.shape[:axis], more, *x.shape[axis + 1 :])
    return r.op(Concat(axis), x, r.constant(np.zeros(shape, x.dtype)))


def _packed(r: Rewriter, w: Term) -> Term:
    """(G, rows, K) -> (G, B, K, rows of a tile)."""
    high = tile_rows(w.shape[1])
    whole = _longer(r, w, 1, high)
    groups, rows, terms = whole.shape
    split = _reshaped(r, whole, (groups, rows // high, high, terms))
    return r.op(Permute((0, 1, 3, 2)), split)


def _products(r: Rewriter, tiles: Tiles, p: Term, packed: Term, shape: Sequence[int]) -> Term:
    """(n, G, rows, windows but along the last axis, along that): what windows have."""
    groups, blocks, _, high = packed.shape
    width = tile_width(p.dtype, high)
    start = tiles.starts(width)
    y = r.op(ShiftedProduct(width), p, packed, r.constant(tiles.offset), r.constant(start))
    whole = _reshaped(r, y, (groups, blocks * high, len(start) * width))
    room = r.constant(np.zeros(shape, np.int64))
    return r.op(WindowRows(), whole, r.constant(tiles.rows), room)


def _joined(r: Rewriter, parts: Sequence[Term]) -> Term:
    return parts[0] if len(parts) == 1 else r.op(Concat(0), *parts)


def convolve(r: Rewriter, op: Any, x: Term, w: Term) -> Term:
    """y (N, O, *out)."""
    windows: Windows = op.windows
    groups, rows = op.groups, w.shape[0] // op.groups
    packed = _packed(r, _reshaped(r, w, (groups, rows, math.prod(w.shape[1:]))))
    parts: list[Term] = []
    for chunk in chunks(x.shape[0], padded_size(windows, x.shape[1], x.dtype.itemsize)):
        tiles = forward(windows, chunk.stop - chunk.start, x.shape[1], groups)
        p = _padded(r, tiles.runs, x, chunk.start)
        parts.append(_products(r, tiles, p, packed, (rows, windows.out[-1])))
    return _reshaped(r, _joined(r, parts), (x.shape[0], w.shape[0], *windows.out))


def convolve_input(r: Rewriter, op: Any, g: Term, w: Term) -> Term:
    """x (N, C, *size)."""
    weights: dict[str, Term] = {}
    parts: list[Term] = []
    for chunk in chunks(g.shape[0], math.prod(g.shape[1:]) * g.dtype.itemsize):
        back = backward(op.windows, chunk.stop - chunk.start, g.shape[1], op.groups)
        p = _padded(r, back.runs, g, chunk.start)
        found: dict[tuple[int, ...], Term] = {}
        for residue, tiles in back.residues:
            key = str(residue.places)
            if key not in weights:
                weights[key] = _packed(r, _of_places(r, w, residue.places, op.groups))
            room = w.shape[1], back.runs.counts[-1]
            y = _products(r, tiles, p, weights[key], room)
            shape = chunk.stop - chunk.start, op.groups * w.shape[1], *back.runs.counts
            found[tuple([at.start for at in residue.at])] = _reshaped(r, y, shape)
        parts.append(_interleaved(r, found, op.windows))
    return _joined(r, parts)


def _of_places(r: Rewriter, w: Term, places: Sequence[Sequence[int]], groups: int) -> Term:
    """(O, C / G, *kernel) -> (G, C / G, O / G places): for each channel in, what it is seen by."""
    for axis, some in enumerate(places, 2):
        if len(some) < w.shape[axis]:  # those of a remainder: equally far apart
            step = some[1] - some[0] if len(some) > 1 else 1
            key: list[Any] = [(None, None, None)] * len(w.shape)
            key[axis] = (some[0], some[-1] + 1, step)
            w = r.op(Slice(tuple(key)), w)
    rows = w.shape[1]
    split = _reshaped(r, w, (groups, w.shape[0] // groups, rows, -1))
    return _reshaped(r, r.op(Permute((0, 2, 1, 3)), split), (groups, rows, -1))


def _interleaved(r: Rewriter, found: dict[tuple[int, ...], Term], windows: Windows) -> Term:
    """(n, C, *size) of what begins at each place of the first stride, zeros where nothing is."""
    some = next(iter(found.values()))  # there is one: a form of which nothing is seen does not pay
    nothing = r.constant(np.zeros(some.shape, some.dtype))
    parts = {at: found.get(at, nothing) for at in product(*map(range, windows.stride))}
    for axis in reversed(range(windows.ndim)):
        step = windows.stride[axis]
        leads = sorted({at[:axis] for at in parts})
        parts = {at: _spread(r, [parts[*at, i] for i in range(step)], axis + 2) for at in leads}
    x = parts[()]
    for axis, n in enumerate(windows.size, 2):
        x = _longer(r, x, axis, n) if x.shape[axis] < n else x
    key = [(None, n, None) for n in windows.size]
    return r.op(Slice((Ellipsis, *key)), x)


def _spread(r: Rewriter, parts: Sequence[Term], axis: int) -> Term:
    """Elements of each of the parts in turn, along an axis."""
    if len(parts) == 1:
        return parts[0]
    lead, rest = parts[0].shape[: axis + 1], parts[0].shape[axis + 1 :]
    each = [_reshaped(r, x, (*lead, 1, *rest)) for x in parts]
    return _reshaped(r, r.op(Concat(axis + 1), *each), (*lead[:-1], -1, *rest))


def convolve_weight(r: Rewriter, op: Any, x: Term, g: Term) -> Term:
    """w (O, C / G, *kernel)."""
    windows: Windows = op.windows
    groups, outs, channels = op.groups, g.shape[1], x.shape[1] // op.groups
    rows, terms = outs // groups, channels * math.prod(windows.kernel)
    width = tile_of(rows, tile_width(x.dtype))
    total: Term | None = None
    for chunk in chunks(x.shape[0], padded_size(windows, x.shape[1], x.dtype.itemsize)):
        runs, offset, start = weight_sums(windows, chunk.stop - chunk.start, x.shape[1], groups)
        p = _padded(r, runs, x, chunk.start)
        v = _turned(r, g, chunk, groups, width)
        v = _reshaped(r, v, (*v.shape[:2], len(start), windows.out[-1], width))
        y = r.op(ShiftedSum(width), p, v, r.constant(offset), r.constant(start))
        total = y if total is None else r.op(ew.add, total, y)
    assert total is not None, "no example"
    blocks = total.shape[1]
    y = _reshaped(r, total, (groups, blocks, -1, width))
    y = r.op(Slice((Ellipsis, (None, terms, None), (None, None, None))), y)
    y = _reshaped(r, r.op(Permute((0, 1, 3, 2)), y), (groups, blocks * width, terms))
    y = r.op(Slice((Ellipsis, (None, rows, None), (None, None, None))), y)
    return _reshaped(r, y, (outs, channels, *windows.kernel))


def _turned(r: Rewriter, g: Term, chunk: slice, groups: int, width: int) -> Term:
    """g (N, O, *out) of some examples as (G, B, n positions, width)."""
    split = _reshaped(r, g, (g.shape[0], groups, g.shape[1] // groups, -1))
    whole = _longer(r, split, 2, width)
    n, _, rows, places = whole.shape
    each = _reshaped(r, whole, (n, groups * rows // width, width, places))
    some = r.op(Slice(((chunk.start, chunk.stop, None), Ellipsis)), each)
    return _reshaped(r, r.op(Turned(width), some), (groups, rows // width, -1, width))
