"""Pooling of x (N, C, *size) over a grid of cells whose number is given, not their size.

As in PyTorch: cell i of m over n elements runs from floor(i n / m) to ceil((i + 1) n / m), so that
cells may share elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ShapeError
from chainrule.ops.indexing.selection import take, take_along_axis, where
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import broadcast_to, moveaxis, roomy
from chainrule.ops.windows.dimensions import ANY, by_dimension, check_axes
from chainrule.ops.windows.windows import sizes_of

GridSizes = int | Sequence[int | None] | None
"""A number of cells for every axis, or one for each; None stands for an axis's own size."""


def _adaptive_avg_pool_of(ndim: int):
    def of_axes(x: Any, output_size: GridSizes) -> Any:
        """The means of x over a grid of `output_size` cells; None keeps an axis's own size.

        Shapes: (N, C, *s) -> (N, C, *[at(output_size or [0], i) or n for i, n in enumerate(s)]).

        >>> nn.functional.{name}(cr.ones((1, 3, {6s})), 2).shape
        (1, 3, {2s})
        """
        return _means(x, _grid("adaptive_avg_pool", x, output_size, ndim))

    return of_axes


@roomy
def _means(x: Any, grid: tuple[int, ...]) -> Any:
    x = red.floating(x)
    for axis, m in enumerate(grid, 2):
        cells, inside = _cells(x, axis, m)
        total = red.sum(where(inside, cells, 0), axis=-1)
        count = inside.sum(axis=-1).astype(x.dtype)
        x = moveaxis(total / count, -1, axis)
    return x


def _adaptive_max_pool_of(ndim: int):
    """The function of `ndim` axes."""

    def of_axes(x: Any, output_size: GridSizes, *, return_indices: bool = False) -> Any:
        """The maxima of x over a grid of `output_size` cells; None keeps an axis's own size.

        Shapes: (N, C, {size}) -> (N, C, {out}), (N, C, {out}) if return_indices;
            (N, C, *s) -> (N, C, *[at(output_size or [0], i) or n for i, n in enumerate(s)]).
        The gradient goes to the first of equals. With `return_indices` there are also the places of
        the maxima in each flattened size, for `max_unpool`.

        >>> nn.functional.{name}(cr.ones((1, 3, {6s})), 2).shape
        (1, 3, {2s})
        """
        grid = _grid("adaptive_max_pool", x, output_size, ndim)
        sizes = tuple(x.shape[2:])
        index: Any = np.arange(math.prod(sizes)).reshape(1, 1, *sizes)
        for axis, m in reversed(list(enumerate(grid, 2))):
            cells, inside = _cells(x, axis, m)
            low = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -math.inf
            first = red.argmax(where(inside, cells, low), axis=-1, keepdims=True)
            x = moveaxis(take_along_axis(cells, first, axis=-1)[..., 0], -1, axis)
            if return_indices:
                places = broadcast_to(_cells(index, axis, m)[0], cells.shape)
                index = moveaxis(take_along_axis(places, first, axis=-1)[..., 0], -1, axis)
        return (x, index) if return_indices else x

    return of_axes


def _grid(what: str, x: Any, output_size: GridSizes, ndim: int) -> tuple[int, ...]:
    """How many cells along each axis but the first two."""
    check_axes(what, x, ndim)
    for axis in range(2, x.ndim):
        if x.shape[axis] == 0:
            raise ShapeError(f"{what}: axis {axis} of {tuple(x.shape)} has no elements")
    mine = [int(n) for n in x.shape[2:]]
    one = output_size is None or isinstance(output_size, int)
    wanted: list[Any] = [output_size] * len(mine) if one else list(cast(Any, output_size))
    if len(wanted) == len(mine):
        wanted = [n if m is None else m for m, n in zip(wanted, mine, strict=True)]
    return sizes_of(what, "output_size", wanted, len(mine))


def _cells(x: Any, axis: int, m: int) -> tuple[Any, Array]:
    """The elements of `m` cells along `axis`, (..., m, most), and which of them are in the cell:
    each gathers as many as the largest has."""
    n = int(x.shape[axis])
    start = np.arange(m) * n // m
    stop = -(-(np.arange(m) + 1) * n // m)
    at: Any = start[:, None] + np.arange(int((stop - start).max()))
    inside = at < stop[:, None]
    return take(moveaxis(x, axis, -1), np.where(inside, at, 0), axis=-1), inside


_ALL = (ANY, 1, 2, 3)
adaptive_avg_pool, adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = by_dimension(
    "adaptive_avg_pool", _adaptive_avg_pool_of, _ALL
)
adaptive_max_pool, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = by_dimension(
    "adaptive_max_pool", _adaptive_max_pool_of, _ALL
)
