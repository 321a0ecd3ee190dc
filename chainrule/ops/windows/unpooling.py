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
from chainrule.ops.windows.dimensions import ANY, by_dimension, check_axes
from chainrule.ops.windows.windows import Sizes, sizes_of


def _max_unpool_of(ndim: int):
    """The function of `ndim` axes."""

    def of_axes(
        x: Any,
        indices: Any,
        kernel: Sizes,
        *,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Any:
        """Zeros with the elements of x at `indices`, which `max_pool1d` and its like return.

        Shapes: (N, C, {out}), (N, C, {out}) -> (N, C, *output_size[2 - x.ndim:])
              if output_size is not None;
            (N, C, *t), (N, C, *t) -> (N, C, *[
              (n - 1) * at(stride or kernel, i) - 2 * at(padding, i) + at(kernel, i)
              for i, n in enumerate(t)]).
        The size is the smallest that pools to that of x, unless `output_size` says which. Zeiler &
        Fergus 2014, arXiv:1311.2901, section 2.1.

        >>> x, at = nn.functional.adaptive_max_pool(cr.ones((1, 3, {6s})), 3, return_indices=True)
        >>> nn.functional.{name}(x, at, 2).shape
        (1, 3, {6s})
        """
        check_axes("max_unpool", x, ndim)
        if tuple(indices.shape) != tuple(x.shape) or indices.dtype.kind not in "iu":
            raise ShapeError(
                "max_unpool: indices are integers of the shape of x, "
                f"{tuple(x.shape)}, not {indices.dtype} {tuple(indices.shape)}"
            )
        size = _unpooled_size(x.shape[2:], kernel, stride, padding, output_size)
        count = math.prod(size)
        _check_indices(indices, count)
        lead = tuple(x.shape[:2])
        zeros = np.zeros((*lead, count), x.dtype)
        flat = scatter(zeros, 2, reshape(indices, (*lead, -1)), reshape(x, (*lead, -1)))
        return reshape(flat, (*lead, *size))

    return of_axes


def _unpooled_size(
    size: Sequence[int],
    kernel: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> tuple[int, ...]:
    """The size of what is pooled to `size`."""
    n = len(size)
    k = sizes_of("max_unpool", "kernel", kernel, n)
    p = sizes_of("max_unpool", "padding", padding, n, 0)
    s = k if stride is None else sizes_of("max_unpool", "stride", stride, n)
    least = tuple([(m - 1) * b - 2 * c + a for m, a, b, c in zip(size, k, s, p, strict=True)])
    wanted = least if output_size is None else tuple([int(m) for m in output_size][-n:])
    if any(not m - b < o < m + b for o, m, b in zip(wanted, least, s, strict=True)):
        raise ConfigError(
            f"max_unpool: output_size {wanted} is nearer to {least} than the stride {s}"
        )
    return wanted


def _check_indices(indices: Any, count: int) -> None:
    found = value_of(indices)
    if type(found) is Spec or not found.size:
        return
    if found.min() < 0 or found.max() >= count:
        raise IndexingError(
            f"max_unpool: indices are from 0 to {count - 1}, places in the flattened output size, "
            f"not from {found.min()} to {found.max()}; is output_size that of what was pooled?"
        )


def _lp_pool_of(ndim: int):
    """The function of `ndim` axes."""

    def of_axes(
        x: Any, ord: float, kernel: Sizes, *, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> Any:
        """The root of order `ord` of the sum of powers of each window of x.

        Shapes: (N, C, {size}) -> (N, C, *t) if ceil_mode;
            (N, C, *s) -> (N, C, *[
              (n - at(kernel, i)) // at(stride or kernel, i) + 1 for i, n in enumerate(s)]).
        As in PyTorch x itself is raised to the power, not its absolute value, so a negative sum
        gives NaN. The order inf gives the largest absolute value. Where the sum is 0 the gradient
        is 0.

        >>> nn.functional.{name}(cr.ones((1, 3, {6s})), 2, 2).shape
        (1, 3, {3s})
        """
        check_axes("lp_pool", x, ndim)
        n = x.ndim - 2
        if n > 3 or not ord > 0:
            raise ConfigError(
                "lp_pool: x is (N, C, *size) with up to 3 sizes and ord is positive, not "
                f"{tuple(x.shape)} and {ord}"
            )
        largest: Any = getattr(pooling, f"max_pool{n}d")
        mean: Any = getattr(pooling, f"avg_pool{n}d")
        if ord == math.inf:
            return largest(ew.abs(x), kernel, stride=stride, ceil_mode=ceil_mode)
        count = math.prod(sizes_of("lp_pool", "kernel", kernel, n))
        total = mean(x**ord, kernel, stride=stride, ceil_mode=ceil_mode) * count
        nothing = total == 0
        return where(nothing, 0, where(nothing, 1, total) ** (1 / ord))

    return of_axes


_ALL = (ANY, 1, 2, 3)
max_unpool, max_unpool1d, max_unpool2d, max_unpool3d = by_dimension(
    "max_unpool", _max_unpool_of, _ALL
)
lp_pool, lp_pool1d, lp_pool2d, lp_pool3d = by_dimension("lp_pool", _lp_pool_of, _ALL)
