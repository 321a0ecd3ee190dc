"""Sums into an array at places that may be equal, in order: `np.add.at`, several times as fast.

NumPy adds at one flat index without what it does for each element of any other. So places become
numbers in the flattened array first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from chainrule.engine.dtypes import Dtype
from chainrule.engine.op import Array
from chainrule.errors import IndexingError
from chainrule.ops import eager_kernels
from chainrule.ops.eager_kernels import Kernel, Run
from chainrule.ops.families import accumulator

Shape = tuple[int, ...]
_WIDE = 512
"""Elements of a slice from which on slice by slice is faster, and takes no memory for places."""


def add_natively(
    kernel: Callable[[bool, Dtype], Kernel], shape: Shape, axis: int, indices: Any, g: Array
) -> Array | None:
    """What `added_slices` returns, by a kernel; None where there is none, or an index is outside.

    The kernel, for slices of several elements or of one, adds to its first argument: (b, n, a),
    (k), (b, k, a), or the same without a.
    """
    index: Any = np.asarray(indices)
    if not index.size or g.dtype.char not in "fd" or not eager_kernels.is_large(g):
        return None
    before, n, after = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    out = np.zeros(shape, g.dtype)
    places = np.ascontiguousarray(index, np.int64)
    run = _adder(kernel(after > 1, g.dtype), before, n, index.size, after)
    try:
        run((out, places, np.ascontiguousarray(g)))
    except IndexingError:  # said better by NumPy
        return None
    return out


@lru_cache(maxsize=1024)
def _adder(kernel: Kernel, before: int, n: int, count: int, after: int) -> Run:
    tail = (after,) * (after > 1)
    return kernel.at([(before, n, *tail), (count,), (before, count, *tail)], [])


def added_slices(shape: Shape, axis: int, indices: Any, g: Array) -> Array:
    """Zeros of `shape` with the slices of g added at integer indices along `axis`; equal indices
    add up, in order.

    (.., k, ..), (k) -> (.., n, ..), where k may be several axes. An index outside raises.
    """
    n = shape[axis]
    index: Any = np.asarray(indices)
    after = math.prod(shape[axis + 1 :])
    before = math.prod(shape[:axis])
    out = np.zeros(shape, accumulator(g.dtype))
    if not index.size or index.min() < -n or index.max() >= n:
        key: Any = (*[slice(None)] * axis, index)
        np.add.at(out, key, g)  # raises
        return _as(out, g.dtype)
    places: Any = index.astype(np.intp, copy=False).ravel()
    if places.min() < 0:
        places = places % n
    if after >= _WIDE:
        wide, parts = out.reshape(before, n, after), g.reshape(before, len(places), after)
        for i, k in enumerate(places.tolist()):
            wide[:, k] += parts[:, i]
        return _as(out, g.dtype)
    if after != 1:
        places = places[:, None] * after + np.arange(after)
    if before != 1:
        places = (np.arange(before) * (n * after)).reshape(-1, *[1] * places.ndim) + places
    return _as(add_flat(out, places, g), g.dtype)


def added_elements(shape: Shape, key: tuple[Any, ...], g: Array) -> Array:
    """Zeros of `shape` with the elements of g added at an index of NumPy's, which has the shape of
    g; equal ones add up, in order."""
    out = np.zeros(shape, accumulator(g.dtype))
    if g.size * 4 < out.size or not g.size:  # numbers for all elements would take longer
        np.add.at(out, key, g)
        return _as(out, g.dtype)
    return _as(add_flat(out, np.arange(out.size).reshape(shape)[key], g), g.dtype)


def add_flat(out: Array, places: Array, g: Array) -> Array:
    """`out`, in C's order, with the elements of g added at numbers in its flattened form."""
    flat = out.reshape(-1)
    np.add.at(flat, places.reshape(-1), g.reshape(-1).astype(out.dtype, copy=False))
    return out


def _as(out: Array, dtype: Dtype) -> Array:
    return out.astype(dtype, copy=False)
