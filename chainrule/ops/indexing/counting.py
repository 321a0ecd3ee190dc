"""How many elements fall where: counts of integers, histograms, and numbers of bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.engine.dtypes import REAL
from chainrule.engine.graph import apply, value_of
from chainrule.engine.op import Spec
from chainrule.engine.provenance import location, source_quote, user_line
from chainrule.errors import ConfigError, DtypeError, ShapeError, TraceError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.indexing.scattering import diff
from chainrule.ops.indexing.selection import TakeAdd, where
from chainrule.ops.indexing.sorting import searchsorted
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import astype, flatten


def bincount(x: Any, weights: Any = None, *, minlength: int = 0) -> Any:
    """How often each of 0, 1, 2, ... occurs in the vector `x` of integers, or their total weight.

    Shapes: (n) -> (k).
    k is the largest element and 1, at least `minlength`. int64, or the dtype of the weights, to
    which gradients flow. Values must be known: not inside `jit`.

    >>> cr.bincount(cr.tensor([0, 2, 2]))
    tensor([1, 0, 2], dtype=int64)
    """
    if x.ndim != 1 or x.dtype.kind not in "iu":
        kind = DtypeError if x.ndim == 1 else ShapeError
        raise kind(f"bincount: needs a vector of integers, not {x.dtype} {tuple(x.shape)}")
    if minlength < 0:
        raise ConfigError(f"bincount: minlength is at least 0, not {minlength}")
    value = value_of(x)
    if isinstance(value, Spec):
        line = user_line()
        raise TraceError(
            f"bincount at {location(*line)}: the largest element of {value} is not known while "
            f"it is traced; call it outside{source_quote(*line)}"
        )
    if value.size and value.min() < 0:
        raise ConfigError(f"bincount: counts integers from 0 on, not {value.min()}")
    size = max(int(value.max(initial=-1)) + 1, minlength)
    each = np.ones(tuple(x.shape), np.int64) if weights is None else weights
    if tuple(each.shape) != tuple(x.shape):
        raise ShapeError(f"bincount: {tuple(each.shape)} weights for {tuple(x.shape)} integers")
    return apply(TakeAdd(0, (size,)), each, x)


def bucketize(x: Any, boundaries: Any, *, right: bool = False) -> Any:
    """The number of the bin between sorted `boundaries` in which each element of `x` lies: int64.

    Shapes: (*s), (n) -> (*s).
    A boundary belongs to the bin before it, with `right` to the one behind it. No gradient.

    >>> cr.bucketize(cr.tensor([0.5, 2.5]), cr.tensor([1.0, 2.0, 3.0]))
    tensor([0, 2], dtype=int64)
    """
    return searchsorted(boundaries, x, side="right" if right else "left")


def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements of `x` lie in each of `bins` equal intervals from `min` to `max`.

    Shapes: (...) -> (bins).
    Where both are equal, from the smallest to the largest element. Of the dtype of `x`; elements
    outside and NaN are not counted. No gradient.

    >>> cr.histc(cr.tensor([1.0, 2.0, 2.0, 4.0]), bins=3, min=1.0, max=4.0)
    tensor([1., 2., 1.], dtype=float32)
    """
    if x.dtype.kind not in REAL:
        raise DtypeError(f"histc: needs real floats, not {x.dtype}; use astype first")
    if bins < 1 or max < min:
        raise ConfigError(f"histc: no {bins} intervals from {min} to {max}")
    low, high = _ends(x, (min, max) if min != max else None, 1.0)
    place = ew.floor((x - low) / (high - low) * bins)
    inside = ew.logical_and(x >= low, x <= high)
    place = astype(where(inside, ew.at_most(place, bins - 1), bins), np.int64)
    return _totals(np.ones(tuple(x.shape), x.dtype), place, bins)


def _ends(x: Any, limits: tuple[float, float] | None, apart: float) -> tuple[Any, Any]:
    """The ends of a histogram: as given, or the extrema of `x`; further `apart` if equal."""
    if limits is None and 0 in x.shape:
        limits = (0.0, 1.0)
    low, high = limits if limits is not None else (red.min(x), red.max(x))
    narrow = astype(np.asarray(low == high) if limits is not None else low == high, x.dtype)
    return low - apart * narrow, high + apart * narrow


def _totals(each: Any, places: Any, size: int) -> Any:
    """The sum of what is at each place; what is at place `size` is left out."""
    totals = apply(TakeAdd(0, (size + 1,)), flatten(each), flatten(places))
    return getitem(totals, slice(0, size))


def histogram(
    x: Any,
    bins: Any,
    *,
    range: tuple[float, float] | None = None,
    weight: Any = None,
    density: bool = False,
) -> tuple[Any, Any]:
    """(counts, edges) of the elements of `x` in intervals: `bins` equal ones, or between edges.

    Shapes: (...) -> (k), (k + 1).
    `bins` is a number, or the sorted edges themselves; `range` the ends for a number, else the
    extrema of `x`. The last interval includes its upper edge. `weight` has the shape of `x`, and
    gets gradients. `density` divides by the total and by the widths, so that the integral is 1.

    >>> cr.histogram(cr.tensor([1.0, 2.0, 2.0, 4.0]), bins=3)
    (tensor([1., 2., 1.], dtype=float32), tensor([1., 2., 3., 4.], dtype=float32))
    """
    if x.dtype.kind not in REAL:
        raise DtypeError(f"histogram: needs real floats, not {x.dtype}; use astype first")
    if isinstance(bins, int):
        if bins < 1:
            raise ConfigError(f"histogram: bins is at least 1, not {bins}")
        low, high = _ends(x, range, 0.5)
        share = np.linspace(0, 1, bins + 1).astype(x.dtype)
        edges = low * (1 - share) + high * share
    else:
        edges = bins
    if edges.ndim != 1 or edges.shape[0] < 2:
        raise ShapeError(f"histogram: edges have one axis and two elements, not {edges.shape}")
    count = int(edges.shape[0]) - 1
    place = ew.at_most(searchsorted(edges, flatten(x), side="right") - 1, count - 1)
    flat = flatten(x)
    inside = ew.logical_and(flat >= edges[0], flat <= edges[-1])
    each = np.ones(tuple(x.shape), x.dtype) if weight is None else weight
    if tuple(each.shape) != tuple(x.shape):
        raise ShapeError(f"histogram: {tuple(each.shape)} weights for {tuple(x.shape)} elements")
    totals = _totals(each, where(inside, place, count), count)
    if density:
        totals = totals / red.sum(totals) / astype(diff(edges), totals.dtype)
    return totals, edges
