"""Elements of images at places that a grid names: `grid_sample`, and grids of affine maps.

A grid holds a place for each element of the result: a coordinate for each axis of the image, the
last axis first, from -1 (the first element) to 1 (the last).

Notation: N batch, C channels, k axes of the image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Literal, cast

import numpy as np

from chainrule.engine.dtypes import check_real, int64
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import matmul
from chainrule.ops.indexing.selection import take, where
from chainrule.ops.shapes.shaping import astype, expand_dims, matrix_transpose, moveaxis, reshape
from chainrule.ops.windows.resizing import cubic_weights

Filling = Literal["zeros", "border", "reflection"]
Taps = list[tuple[Any, Any]]
"""Along one axis: the elements (indices as floats) that a place reads, and their weights."""


def grid_sample(
    x: Any,
    grid: Any,
    *,
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Filling = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """x (N, C, *size) of 2 or 3 axes at the places of `grid` (N, *t, k), as in PyTorch.

    Shapes: (N, C, *s), (N, *t, len(s)) -> (N, C, *t).
    A coordinate from -1 to 1 runs from the outer edge of the first element to that of the last, or
    with `align_corners` between their middles. "bilinear" weighs the nearest elements by distance,
    "nearest" takes one (a half goes to the even place; the grid has gradient 0), "bicubic" (2 axes)
    is a cubic through four of them along each axis. Beyond the edge lie zeros, the nearest element
    ("border"), or the image, reflected. Jaderberg et al. 2015, arXiv:1506.02025, section 3.3.

    >>> nn.functional.grid_sample(cr.ones((1, 2, 4, 4)), cr.zeros((1, 3, 5, 2))).shape
    (1, 2, 3, 5)
    """
    align_corners = bool(align_corners)
    k = x.ndim - 2
    _check(x, grid, mode, padding_mode, k)
    sizes = [int(n) for n in x.shape[2:]]
    taps: list[Taps] = []
    for axis, n in enumerate(sizes):
        at = _place(grid[..., k - 1 - axis], n, align_corners)
        within = _outside(padding_mode, n, align_corners)
        taps.append(_taps(mode, at, within))
    return _weighted_sum(x, sizes, taps)


def _check(x: Any, grid: Any, mode: str, padding_mode: str, k: int) -> None:
    """Raise for words that are no mode, and for shapes of image and grid that do not fit."""
    check_real("grid_sample: the grid", grid)
    known = ("bilinear", "nearest", "bicubic")[: 3 if k == 2 else 2]
    if mode not in known or padding_mode not in ("zeros", "border", "reflection"):
        raise ConfigError(
            f"grid_sample: mode is one of {', '.join(known)} for {k} axes, padding_mode one of "
            f"zeros, border, reflection; not {mode!r} and {padding_mode!r}"
        )
    if k not in (2, 3) or grid.ndim != k + 2 or grid.shape[-1] != k or grid.shape[0] != x.shape[0]:
        raise ShapeError(
            "grid_sample: x is (N, C, H, W) and the grid (N, ..., ..., 2), or x (N, C, D, H, W) "
            f"and the grid (N, ..., ..., ..., 3), not {tuple(x.shape)} and {tuple(grid.shape)}"
        )
    if 0 in x.shape[2:]:
        raise ShapeError(f"grid_sample: x {tuple(x.shape)} has no elements to choose from")


def _place(at: Any, n: int, align_corners: bool) -> Any:
    """The index that a coordinate stands for; NaN stands outside."""
    at = where(at == at, at, -3.0)
    return (at + 1) * ((n - 1) / 2) if align_corners else ((at + 1) * n - 1) * 0.5


def _outside(padding_mode: Filling, n: int, align_corners: bool) -> Callable[[Any], Any]:
    """What becomes of places beyond the edges, of n elements."""

    def reflect(at: Any) -> Any:
        low, span = (0.0, n - 1) if align_corners else (-0.5, n)
        if span == 0:
            return at * 0
        way = ew.abs(at - low)
        turns = ew.floor(way / span)
        rest = way - turns * span
        return where(ew.remainder(turns, 2.0) == 0, rest + low, span - rest + low)

    def clamp(at: Any) -> Any:
        # so far out that nothing is read, and no index overflows
        return ew.at_most(ew.at_least(at, -4.0), n + 3.0)

    def on_edge(at: Any) -> Any:
        return ew.at_most(ew.at_least(at, 0), n - 1)

    if padding_mode == "reflection":
        return lambda at: on_edge(reflect(at))
    return on_edge if padding_mode == "border" else clamp


def _taps(mode: str, at: Any, within: Callable[[Any], Any]) -> Taps:
    """What a place reads along one axis."""
    if mode == "nearest":
        return [(ew.round(within(at)), None)]
    if mode == "bilinear":
        at = within(at)
        low = ew.floor(at)
        t = at - low
        return [(low, 1 - t), (low + 1, t)]
    low = ew.floor(at)
    weights = zip((-1, 0, 1, 2), cubic_weights(at - low), strict=True)
    return [(within(low + offset), weight) for offset, weight in weights]


def _weighted_sum(x: Any, sizes: Sequence[int], taps: list[Taps]) -> Any:
    """The sum of elements times weights, over the taps of all axes; nothing is read outside."""
    rows = reshape(moveaxis(x, 1, -1), (-1, int(x.shape[1])))
    total: Any = None
    for chosen in product(*taps):
        index, weight = _combine_axes(chosen, sizes)
        part = take(rows, index, axis=0) * astype(expand_dims(weight, -1), x.dtype)
        total = part if total is None else total + part
    return moveaxis(total, -1, 1)


def _combine_axes(chosen: Sequence[tuple[Any, Any]], sizes: Sequence[int]) -> tuple[Any, Any]:
    """Of one tap for each axis: the rows (N, *t) among all of the batch, and the weights."""
    index: Any = 0
    inside: Any = True
    weight: Any = None
    for (at, share), n in zip(chosen, sizes, strict=True):
        inside = ew.logical_and(inside, ew.logical_and(at >= 0, at <= n - 1))
        index = index * n + astype(ew.at_most(ew.at_least(at, 0), n - 1), int64)
        if share is not None:
            weight = share if weight is None else weight * share
    batch = cast(Any, np.arange(index.shape[0]) * math.prod(sizes))
    index = index + batch.reshape(-1, *[1] * (index.ndim - 1))
    at, _ = chosen[0]
    return index, where(inside, np.ones((), at.dtype) if weight is None else weight, 0)


def affine_grid(theta: Any, size: Sequence[int], *, align_corners: bool | None = None) -> Any:
    """For `grid_sample`: the places theta @ (coordinates, 1) of images (N, C, *s), as in PyTorch.

    Shapes: theta (N, k, k + 1) -> (*t, k) with len(t) == k + 1.

    >>> theta = cr.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> nn.functional.affine_grid(theta, (1, 3, 4, 5)).shape
    (1, 4, 5, 2)
    """
    sizes = [int(n) for n in size]
    k = len(sizes) - 2
    if k not in (2, 3) or tuple(theta.shape) != (sizes[0], k, k + 1) or min(sizes) < 1:
        raise ShapeError(
            "affine_grid: theta is (N, 2, 3) for a size (N, C, H, W), (N, 3, 4) for "
            f"(N, C, D, H, W), not {tuple(theta.shape)} for {tuple(sizes)}"
        )
    ends = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in sizes[2:]]
    if not align_corners:
        ends = [e * ((n - 1) / n) for e, n in zip(ends, sizes[2:], strict=True)]
    axes = np.meshgrid(*ends, indexing="ij")[::-1]
    base = np.stack([*axes, np.ones_like(axes[0])], axis=-1).astype(theta.dtype)
    places = matmul(base.reshape(1, -1, k + 1), matrix_transpose(theta))
    return reshape(places, (sizes[0], *sizes[2:], k))
