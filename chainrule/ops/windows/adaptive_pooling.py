"""Pooling of x (N, C, *size) over a grid of cells whose number is given, not their size.

As in PyTorch: cell i of m over n elements runs from floor(i n / m) to ceil((i + 1) n / m), so that
cells may share elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ShapeError
from chainrule.ops.indexing.selection import take, take_along_axis, where
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import broadcast_to, moveaxis, roomy
from chainrule.ops.windows.windows import Sizes, sizes_of


@roomy
def adaptive_avg_pool(x: Any, output_size: Sizes) -> Any:
    """The means of x over a grid of `output_size` cells.

    Shapes: (N, C, *s) -> (N, C, *output_size).
    """
    x = red.floating(x)
    for axis, m in enumerate(_grid("adaptive_avg_pool", x, output_size), 2):
        cells, inside = _cells(x, axis, m)
        total = red.sum(where(inside, cells, 0), axis=-1)
        count = inside.sum(axis=-1).astype(x.dtype)
        x = moveaxis(total / count, -1, axis)
    return x


def adaptive_max_pool(x: Any, output_size: Sizes, *, return_indices: bool = False) -> Any:
    """The maxima of x over a grid of `output_size` cells; the gradient goes to the first of equals.

    Shapes: (N, C, *s) -> (N, C, *output_size), (N, C, *output_size) if return_indices;
        (N, C, *s) -> (N, C, *output_size).
    With `return_indices` there are also the places of the maxima in each flattened size.
    """
    sizes = tuple(x.shape[2:])
    index: Any = np.arange(math.prod(sizes)).reshape(1, 1, *sizes)
    for axis, m in reversed(list(enumerate(_grid("adaptive_max_pool", x, output_size), 2))):
        cells, inside = _cells(x, axis, m)
        low = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -math.inf
        first = red.argmax(where(inside, cells, low), axis=-1, keepdims=True)
        x = moveaxis(take_along_axis(cells, first, axis=-1)[..., 0], -1, axis)
        if return_indices:
            places = broadcast_to(_cells(index, axis, m)[0], cells.shape)
            index = moveaxis(take_along_axis(places, first, axis=-1)[..., 0], -1, axis)
    return (x, index) if return_indices else x


def _grid(what: str, x: Any, output_size: Sizes) -> tuple[int, ...]:
    if x.ndim < 3:
        raise ShapeError(f"{what}: x is (N, C, ...), not {tuple(x.shape)}")
    for axis in range(2, x.ndim):
        if x.shape[axis] == 0:
            raise ShapeError(f"{what}: axis {axis} of {tuple(x.shape)} has no elements")
    return sizes_of(what, "output_size", output_size, x.ndim - 2)


def _cells(x: Any, axis: int, m: int) -> tuple[Any, Array]:
    """The elements of `m` cells along `axis`, (..., m, most), and which of them are in the cell:
    each gathers as many as the largest has."""
    n = int(x.shape[axis])
    start = np.arange(m) * n // m
    stop = -(-(np.arange(m) + 1) * n // m)
    at: Any = start[:, None] + np.arange(int((stop - start).max()))
    inside = at < stop[:, None]
    return take(moveaxis(x, axis, -1), np.where(inside, at, 0), axis=-1), inside
