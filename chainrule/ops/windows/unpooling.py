"""The way back from maxima of windows, and norms of windows in place of maxima."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import value_of
from chainrule.engine.op import Spec
from chainrule.errors import ConfigError, IndexingError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.scattering import scatter
from chainrule.ops.indexing.selection import where
from chainrule.ops.shapes.shaping import reshape
from chainrule.ops.windows import pooling
from chainrule.ops.windows.windows import Sizes, sizes_of


def max_unpool(
    x: Any,
    indices: Any,
    kernel: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Zeros with the elements of x (N, C, *t) at `indices`, which `max_pool1d` and its like return.

    Shapes: (N, C, *t), (N, C, *t) -> (N, C, *output_size[-len(t):]) if output_size is not None;
        (N, C, *t), (N, C, *t) -> (N, C, *[
          (n - 1) * at(stride or kernel, i) - 2 * at(padding, i) + at(kernel, i)
          for i, n in enumerate(t)]).
    The size is the smallest that pools to that of x, unless `output_size` says which. Zeiler &
    Fergus 2014, arXiv:1311.2901, section 2.1.
    """
    n = x.ndim - 2
    if n < 1 or tuple(indices.shape) != tuple(x.shape) or indices.dtype.kind not in "iu":
        raise ShapeError(
            "max_unpool: x is (N, C, *size), and indices are integers of that shape, not "
            f"{tuple(x.shape)} and {indices.dtype} {tuple(indices.shape)}"
        )
    k = sizes_of("max_unpool", "kernel", kernel, n)
    p = sizes_of("max_unpool", "padding", padding, n, 0)
    s = k if stride is None else sizes_of("max_unpool", "stride", stride, n)
    least = [(m - 1) * b - 2 * c + a for m, a, b, c in zip(x.shape[2:], k, s, p, strict=True)]
    size = least if output_size is None else [int(m) for m in output_size][-n:]
    if any(not m - b < o < m + b for o, m, b in zip(size, least, s, strict=True)):
        raise ConfigError(
            f"max_unpool: output_size {tuple(size)} is nearer to {tuple(least)} than the stride {s}"
        )
    count = math.prod(size)
    _check_indices(indices, count)
    lead = tuple(x.shape[:2])
    flat = scatter(
        np.zeros((*lead, count), x.dtype), 2, reshape(indices, (*lead, -1)), reshape(x, (*lead, -1))
    )
    return reshape(flat, (*lead, *size))


def _check_indices(indices: Any, count: int) -> None:
    found = value_of(indices)
    if type(found) is Spec or not found.size:
        return
    if found.min() < 0 or found.max() >= count:
        raise IndexingError(
            f"max_unpool: indices are from 0 to {count - 1}, places in the flattened output size, "
            f"not from {found.min()} to {found.max()}; is output_size that of what was pooled?"
        )


def lp_pool(
    x: Any,
    ord: float,
    kernel: Sizes,
    *,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Any:
    """The root of order `ord` of the sum of powers of each window of x (N, C, *size).

    Shapes: (N, C, *s) -> (N, C, *t) if ceil_mode;
        (N, C, *s) -> (N, C, *[
          (n - at(kernel, i)) // at(stride or kernel, i) + 1 for i, n in enumerate(s)]).
    As in PyTorch x itself is raised to the power, not its size, so that a negative sum gives NaN;
    the order inf gives the largest size. Where the sum is 0 the gradient is 0.
    """
    n = x.ndim - 2
    if n not in (1, 2, 3) or not ord > 0:
        raise ConfigError(
            f"lp_pool: x is (N, C, *size) and ord is positive, not {tuple(x.shape)} and {ord}"
        )
    if ord == math.inf:
        return _MAX[n - 1](ew.abs(x), kernel, stride=stride, ceil_mode=ceil_mode)
    count = math.prod(sizes_of("lp_pool", "kernel", kernel, n))
    total = _MEAN[n - 1](x**ord, kernel, stride=stride, ceil_mode=ceil_mode) * count
    nothing = total == 0
    return where(nothing, 0, where(nothing, 1, total) ** (1 / ord))


_MEAN = (pooling.avg_pool1d, pooling.avg_pool2d, pooling.avg_pool3d)
_MAX = (pooling.max_pool1d, pooling.max_pool2d, pooling.max_pool3d)
