"""Convolution of whole arrays, of any number of axes: every product a[i] b[j] is added at i + j."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from chainrule.errors import ConfigError, ShapeError, describe
from chainrule.ops.contraction import tensordot
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.indexing.selection import take
from chainrule.ops.shapes.padding import pad
from chainrule.ops.shapes.shaping import astype, expand_dims, squeeze
from chainrule.ops.shapes.slices import flip
from chainrule.ops.windows.convolution import conv1d, conv2d, conv3d

Mode = Literal["full", "same", "valid"]
_BY_AXES = {1: conv1d, 2: conv2d, 3: conv3d}


def convolve(a: Any, b: Any, *, mode: Mode = "full") -> Any:
    """The convolution of two arrays with equally many axes; SciPy's `scipy.signal.convolve`.

    Shapes: (n), (m) -> (n + m - 1) if mode == "full"; (n), (m) -> (n) if mode == "same";
        (n), (m) -> (k) if mode == "valid".
    "full" is all of it, "same" its middle, of the shape of a, "valid" what needs no zeros around
    the larger array, which is larger along every axis. The same holds for each of several axes.
    Real and complex floats, and integers.

    >>> cr.convolve(cr.tensor([1.0, 2.0, 3.0]), cr.tensor([1.0, 1.0]))
    tensor([1., 3., 5., 3.], dtype=float32)
    """
    cut = _part(a, b, mode)
    if mode == "valid" and any(n < m for n, m in zip(a.shape, b.shape, strict=True)):
        a, b = b, a
    dtype = np.result_type(a.dtype, b.dtype)
    a, b = astype(a, dtype), flip(astype(b, dtype))
    around = [(0, 0) if mode == "valid" else (m - 1, m - 1) for m in b.shape]
    padded = pad(a, around)
    if dtype.kind == "f" and a.ndim in _BY_AXES:
        y = _BY_AXES[a.ndim](expand_dims(padded, (0, 1)), expand_dims(b, (0, 1)))
        y = squeeze(y, (0, 1))
    else:
        y = _sums(padded, b)
    return getitem(y, cut) if mode == "same" else y


def _part(a: Any, b: Any, mode: Mode) -> tuple[slice, ...]:
    """The middle of the whole convolution; raises where there is none."""
    if mode not in ("full", "same", "valid"):
        raise ConfigError(f"convolve: mode is full, same or valid, not {mode!r}")
    if a.ndim != b.ndim or a.ndim == 0 or 0 in (*a.shape, *b.shape):
        raise ShapeError(
            "convolve: two arrays with equally many axes, at least one, and with elements; not "
            f"{describe(a)} and {describe(b)}"
        )
    pairs = list(zip(a.shape, b.shape, strict=True))
    if mode == "valid" and any(n < m for n, m in pairs) and any(n > m for n, m in pairs):
        raise ShapeError(
            "convolve: for 'valid' one array is at least as large as the other along every axis; "
            f"not {describe(a)} and {describe(b)}"
        )
    return tuple([slice((m - 1) // 2, (m - 1) // 2 + n) for n, m in pairs])


def _sums(padded: Any, b: Any) -> Any:
    """The sums of products of b with each part of its shape."""
    windows = padded
    for axis, m in enumerate(b.shape):
        count, m = int(padded.shape[axis] - m + 1), int(m)
        places = np.arange(count)[:, None] + np.arange(m)
        windows = take(windows, places, axis=2 * axis)
    within = tuple(range(1, 2 * b.ndim, 2))
    return tensordot(windows, b, axes=(within, tuple(range(b.ndim))))
