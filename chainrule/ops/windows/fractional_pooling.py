"""Pooling over windows that stand at random, a fraction of the size apart.

Graham 2014, arXiv:1412.6071, section 2: overlapping windows at pseudorandom places, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.errors import ConfigError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.selection import take_along_axis
from chainrule.ops.reductions.reduction import argmax
from chainrule.ops.shapes.shaping import astype, reshape
from chainrule.ops.windows.dimensions import by_dimension, check_axes
from chainrule.ops.windows.pooling import elements_at
from chainrule.ops.windows.windows import Shape, Sizes, sizes_of
from chainrule.random import Generator, default_generator


def _fractional_max_pool_of(ndim: int):
    """The function of `ndim` axes."""

    def of_axes(
        x: Any,
        kernel: Sizes,
        *,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        samples: Any = None,
        generator: Generator | None = None,
    ) -> Any:
        """The maxima of windows of x at random places, about equally far apart.

        Shapes: (N, C, {size}) -> (N, C, {out}), (N, C, {out}) if return_indices;
            (N, C, {size}) -> (N, C, {out}).
        There are `output_size` windows, or `output_ratio` times the size. Each channel of each
        example has its own. `samples` (N, C, {n}), numbers from 0 to 1, decide where they stand, as
        in PyTorch (the last axis first, in 3 dimensions the first one first); they are drawn unless
        they are given. With `return_indices` there are also the places of the maxima in each
        flattened size, for `max_unpool`.

        >>> g = cr.Generator(0)
        >>> nn.functional.{name}(cr.ones((1, 3, {6s})), 2, output_size=4, generator=g).shape
        (1, 3, {4s})
        """
        what = f"fractional_max_pool{ndim}d"
        check_axes(what, x, ndim)
        k = sizes_of(what, "kernel", kernel, ndim)
        out = _out(what, tuple(x.shape[2:]), k, output_size, output_ratio)
        if samples is None:
            drawn = (generator or default_generator).uniform((*x.shape[:2], ndim))
            samples = astype(drawn, x.dtype)
        elif tuple(samples.shape) != (*x.shape[:2], ndim):
            raise ShapeError(
                f"{what}: samples are {(*x.shape[:2], ndim)} for x {tuple(x.shape)}, not "
                f"{tuple(samples.shape)}"
            )
        index = _places(x, k, out, samples)
        flat = reshape(elements_at(x, index), (*x.shape[:2], *out, -1))
        first = argmax(flat, axis=-1, keepdims=True)
        index = reshape(index, (*x.shape[:2], *out, -1))
        y, places = [take_along_axis(t, first, axis=-1)[..., 0] for t in (flat, index)]
        return (y, places) if return_indices else y

    return of_axes


def _out(
    what: str,
    size: Shape,
    kernel: Shape,
    output_size: Sizes | None,
    output_ratio: float | Sequence[float] | None,
) -> Shape:
    """How many windows there are along each axis."""
    if (output_size is None) == (output_ratio is None):
        raise ConfigError(f"{what}: give one of output_size and output_ratio")
    if output_size is not None:
        out = sizes_of(what, "output_size", output_size, len(size))
    else:
        one = isinstance(output_ratio, int | float)
        ratios = [output_ratio] * len(size) if one else list(output_ratio or ())
        if len(ratios) != len(size) or not all(0 < float(r or 0) < 1 for r in ratios):
            raise ConfigError(
                f"{what}: output_ratio is a number between 0 and 1, or {len(size)} of them, not "
                f"{output_ratio}"
            )
        out = tuple([int(n * float(r or 0)) for n, r in zip(size, ratios, strict=True)])
    if [1 for n, k, m in zip(size, kernel, out, strict=True) if m < 1 or m + k - 1 > n]:
        raise ShapeError(
            f"{what}: {out} windows of {kernel} do not fit into {size}: along each axis there are "
            "at least 1, and at most size - kernel + 1"
        )
    return out


def _places(x: Any, kernel: Shape, out: Shape, samples: Any) -> Any:
    """Of each window's elements the places in the flattened size: (N, C, *out, *kernel)."""
    size, n = tuple(x.shape[2:]), len(out)
    index: Any = np.zeros((1, 1), np.int64)
    for axis, (length, k, m) in enumerate(zip(size, kernel, out, strict=True)):
        sample = samples[..., axis if n == 3 else n - 1 - axis]
        start = _starts(sample, length - k, m, x.dtype)  # (N, C, m)
        lead = tuple(start.shape[:2])
        start = reshape(start, (*lead, *[m if a == axis else 1 for a in range(n)], *[1] * n))
        inside = np.arange(k).reshape([k if a == axis else 1 for a in range(n)])
        if axis == 0:
            index = reshape(index, (1, 1, *[1] * 2 * n))
        index = index + (start + inside) * math.prod(size[axis + 1 :])
    return index


def _starts(sample: Any, last: int, m: int, dtype: Any) -> Any:
    """Where the m windows along an axis begin, the last at `last`: (N, C) -> (N, C, m)."""
    sample = reshape(sample, (*sample.shape, 1))
    ends = np.array([last], np.int64)
    if m == 1:
        return astype(sample * 0, np.int64) + ends
    step = np.asarray(last, dtype) / np.asarray(m - 1, dtype)
    at = ew.floor((np.arange(m).astype(dtype) + sample) * step) - ew.floor(sample * step)
    is_last = np.arange(m) == m - 1
    return astype(at, np.int64) * ~is_last + ends * is_last


fractional_max_pool2d, fractional_max_pool3d = by_dimension(
    "fractional_max_pool", _fractional_max_pool_of, (2, 3)
)
