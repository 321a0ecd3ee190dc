"""Parts of an array replaced: along an axis, on a diagonal, in a slice, where a mask holds.

Each gives a new array, as `index_put` does; of equal indices the last stays.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from chainrule.errors import ConfigError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.families import broadcast_to
from chainrule.ops.indexing import scatter_reductions, scattering
from chainrule.ops.indexing.selection import take, where
from chainrule.ops.reductions.scan import cumsum
from chainrule.ops.shapes.shaping import astype, broadcast_arrays, flatten, normalize_axis, reshape


def index_fill(x: Any, axis: int, indices: Any, value: Any) -> Any:
    """`x` with the number `value` in the slices at `indices` (one axis) along `axis`.

    Shapes: (*s), indices (k), value () -> (*s).

    >>> cr.index_fill(cr.zeros(3), 0, cr.tensor([2, 0]), 5.0)
    tensor([5., 0., 5.], dtype=float32)
    """
    if getattr(value, "ndim", 0):
        raise ShapeError(f"index_fill: the value is one number, not shape {tuple(value.shape)}")
    place = normalize_axis(axis, x.ndim)
    count = indices.shape[0] if indices.ndim else 1
    each = value if hasattr(value, "dtype") else np.asarray(value, x.dtype)
    slices = broadcast_to(each, (*x.shape[:place], count, *x.shape[place + 1 :]))
    return scattering.index_copy(x, place, indices, slices)


def index_reduce(
    x: Any,
    axis: int,
    indices: Any,
    source: Any,
    reduce: Literal["prod", "mean", "amax", "amin"],
    *,
    include_self: bool = True,
) -> Any:
    """`x` with the slices of `source` reduced into those at `indices` (one axis) along `axis`.

    Shapes: (*s, axis: n), indices (k), source (*s, axis: k) -> (*s, axis: n).
    `reduce` and `include_self` as in `scatter_reduce`.

    >>> cr.index_reduce(cr.ones(2), 0, cr.tensor([0, 0]), cr.tensor([2.0, 3.0]), "prod")
    tensor([6., 1.], dtype=float32)
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ConfigError(f"index_reduce: reduce is prod, mean, amax or amin, not {reduce!r}")
    place = normalize_axis(axis, x.ndim)
    if indices.ndim != 1:
        raise ShapeError(f"index_reduce: indices have one axis, not shape {tuple(indices.shape)}")
    shape = (*x.shape[:place], indices.shape[0], *x.shape[place + 1 :])
    if tuple(source.shape) != shape:
        raise ShapeError(f"index_reduce: the source has shape {shape}, not {tuple(source.shape)}")
    wide = broadcast_to(reshape(indices, (-1, *[1] * (x.ndim - place - 1))), shape)
    return scatter_reductions.scatter_reduce(
        x, place, wide, source, reduce, include_self=include_self
    )


def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """`x` with the first elements of the flat `source`, in order, where the bool `mask` holds.

    Shapes: (*s), mask (*s), source (...) -> (*s).
    `x` and the mask may broadcast. A source with fewer elements than places is an error.

    >>> cr.masked_scatter(cr.zeros(3), cr.tensor([True, False, True]), cr.tensor([1.0, 2.0]))
    tensor([1., 0., 2.], dtype=float32)
    """
    x, mask = broadcast_arrays(x, scattering.bool_mask("masked_scatter", mask))
    order = reshape(cumsum(flatten(astype(mask, np.int64)), 0) - 1, tuple(x.shape))
    values = flatten(astype(source, x.dtype))
    if values.shape[0] == 0:  # nothing can be taken, not even where it is not used
        values = np.zeros(1, x.dtype)
        order = where(mask, order + 1, order)
    return where(mask, take(values, ew.at_least(order, 0), axis=0), x)


def select_scatter(x: Any, source: Any, axis: int, index: int) -> Any:
    """`x` with `source` as its slice at `index` along `axis`.

    Shapes: (*s, axis: n), source (*s) -> (*s, axis: n).

    >>> cr.select_scatter(cr.zeros((2, 2)), cr.tensor([1.0, 2.0]), 0, 1)
    tensor([[0., 0.],
            [1., 2.]], dtype=float32)
    """
    place = normalize_axis(axis, x.ndim)
    return _replace("select_scatter", x, source, (*[slice(None)] * place, index))


def slice_scatter(
    x: Any,
    source: Any,
    axis: int = 0,
    start: int | None = None,
    stop: int | None = None,
    step: int = 1,
) -> Any:
    """`x` with `source` in place of `x[.., start:stop:step, ..]` along `axis`.

    Shapes: (*s, axis: n), source (*s, axis: k) -> (*s, axis: n).

    >>> cr.slice_scatter(cr.zeros(4), cr.tensor([1.0, 2.0]), 0, 1, 3)
    tensor([0., 1., 2., 0.], dtype=float32)
    """
    place = normalize_axis(axis, x.ndim)
    if step < 1:
        raise ConfigError(f"slice_scatter: step is at least 1, not {step}")
    key = (*[slice(None)] * place, slice(start, stop, step))
    return _replace("slice_scatter", x, source, key)


def _replace(what: str, x: Any, source: Any, key: Any) -> Any:
    places = scattering.flat_places(tuple(x.shape))[key]
    return _write_at(what, x, source, places)


def _write_at(what: str, x: Any, source: Any, places: Any) -> Any:
    if tuple(source.shape) != places.shape:
        raise ShapeError(f"{what}: the source has shape {places.shape}, not {tuple(source.shape)}")
    return scattering.overwrite(what, x, places, source)


def diagonal_scatter(x: Any, source: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """`x` with `source` on diagonal number `offset` of the matrices along `axis1` and `axis2`.

    Shapes: (m, n), source (k) -> (m, n); (*s), source (*t) -> (*s).
    The diagonal is the last axis of `source`.

    >>> cr.diagonal_scatter(cr.zeros((2, 2)), cr.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]], dtype=float32)
    """
    a, b = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    if a == b:
        raise ShapeError(f"diagonal_scatter: {(axis1, axis2)} names one axis twice")
    flat: Any = scattering.flat_places(tuple(x.shape))
    return _write_at("diagonal_scatter", x, source, np.diagonal(flat, offset, a, b))
