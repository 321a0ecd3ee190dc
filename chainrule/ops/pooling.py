"""Pooling: the maximum or the mean of each window of x (N, C, *size).

Arguments are PyTorch's. `stride` is the kernel's size unless it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.dtypes import REAL, rounded_once
from chainrule.errors import ConfigError, ShapeError
from chainrule.graph import apply
from chainrule.op import Need, Op, Spec
from chainrule.ops import reduction as red
from chainrule.ops.families import Linear
from chainrule.ops.selection import take, where
from chainrule.ops.shaping import moveaxis, reshape, roomy
from chainrule.ops.windows import Sizes, Windows, sizes_of


class WindowArg(Op):
    """Where the maximum of each window stands: index in the flattened size. The first of equals.

    The first NaN of a window is its maximum. Padding is never chosen.
    """

    windows: Windows
    leading = True

    @property
    def name(self) -> str:
        """`max_pool`."""
        return "max_pool"

    def eval(self, *xs: Any) -> Any:
        """One comparison of all windows for each kernel place."""
        (x,), w = xs, self.windows
        value = w.pad(x, -math.inf if x.dtype.kind in REAL else np.iinfo(x.dtype).min)
        place = w.pad(np.arange(math.prod(w.size)).reshape(w.size), -1)
        top: Any = None
        index: Any = None
        for key in w.places():
            v, at = value[key], place[key]
            if top is None:
                top, index = v.copy(), np.broadcast_to(at, v.shape).copy()
                continue
            better = (v > top) | ((v != v) & (top == top)) | ((index < 0) & (at >= 0))
            np.copyto(top, v, where=better)
            np.copyto(index, at, where=better)
        return index

    def spec(self, *xs: Any) -> Spec:
        """(..., *out), int64."""
        lead = xs[0].shape[: -self.windows.ndim]
        return Spec((*lead, *self.windows.out), np.dtype(np.int64))

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


class WindowSum(Linear):
    """The sum of each window, (..., *size) -> (..., *out); with `back`, its transpose."""

    windows: Windows
    back: bool
    leading = True

    @property
    def name(self) -> str:
        """`window_sum`."""
        return "window_sum"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """One sum of all windows for each kernel place."""
        (x,), w = xs, self.windows
        if self.back:
            return w.spread([x] * math.prod(w.kernel))
        padded = w.pad(x)
        first, *rest = w.places()
        y = padded[first].copy()
        for key in rest:
            y += padded[key]
        return y

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the input's dtype."""
        (x,), w = xs, self.windows
        return Spec((*x.shape[: -w.ndim], *(w.size if self.back else w.out)), x.dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The other direction."""
        return (apply(WindowSum(self.windows, not self.back), g),)


def _windows(
    what: str, ndim: int, x: Any, kernel: Sizes, stride: Sizes | None, padding: Sizes, dilation: Any
) -> Windows:
    if x.ndim != ndim + 2:
        raise ShapeError(f"{what}: x is (N, C, *size) with {ndim + 2} axes, not {tuple(x.shape)}")
    k, p = sizes_of(what, "kernel", kernel, ndim), sizes_of(what, "padding", padding, ndim, 0)
    if [1 for n, m in zip(p, k, strict=True) if 2 * n > m]:
        raise ConfigError(f"{what}: padding {p} is more than half of the kernel {k}")
    return Windows.over(what, x, k, k if stride is None else stride, p, dilation)


def _max_pool(x: Any, windows: Windows) -> Any:
    index = apply(WindowArg(windows), x)  # within each (example, channel)
    n, c = int(x.shape[0]), int(x.shape[1])
    start = (np.arange(n * c) * math.prod(windows.size)).reshape(n, c, *[1] * windows.ndim)
    flat = reshape(index + start, (-1,))
    return reshape(take(reshape(x, (-1,)), flat, axis=0), (n, c, *windows.out))


def max_pool1d(
    x: Any, kernel: Sizes, *, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1
) -> Any:
    """The maximum of each window of x.

    Shapes: (N, C, W) -> (N, C, (W + 2 * at(padding, 0) - at(dilation, 0) * (at(kernel, 0) - 1) -
          1) // at(stride or kernel, 0) + 1).
    The gradient goes to the first maximum of a window. Padding is never the maximum; NaN is.
    """
    return _max_pool(x, _windows("max_pool1d", 1, x, kernel, stride, padding, dilation))


def max_pool2d(
    x: Any, kernel: Sizes, *, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1
) -> Any:
    """The maximum of each window of x.

    Shapes: (N, C, H, W) -> (N, C, (H + 2 * at(padding, 0) - at(dilation, 0) * (at(kernel, 0) - 1)
          - 1) // at(stride or kernel, 0) + 1,
          (W + 2 * at(padding, 1) - at(dilation, 1) * (at(kernel, 1) - 1) - 1) //
          at(stride or kernel, 1) + 1).
    The gradient goes to the first maximum of a window, in row-major order. Padding is never the
    maximum; NaN is.
    """
    return _max_pool(x, _windows("max_pool2d", 2, x, kernel, stride, padding, dilation))


@roomy
def _avg_pool(x: Any, windows: Windows, count_include_pad: bool) -> Any:
    x = red.floating(x)
    total = apply(WindowSum(windows, False), x)
    if count_include_pad:
        return total / math.prod(windows.kernel)
    return total / WindowSum(windows, False).eval(np.ones(windows.size, x.dtype))


def avg_pool1d(
    x: Any,
    kernel: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of x.

    Shapes: (N, C, W) -> (N, C, (W + 2 * at(padding, 0) - at(kernel, 0)) // at(stride or kernel, 0)
          + 1).
    Zeros of the padding count as elements unless `count_include_pad` is False.
    """
    windows = _windows("avg_pool1d", 1, x, kernel, stride, padding, 1)
    return _avg_pool(x, windows, count_include_pad)


def avg_pool2d(
    x: Any,
    kernel: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of x.

    Shapes: (N, C, H, W) -> (N, C, (H + 2 * at(padding, 0) - at(kernel, 0)) //
          at(stride or kernel, 0) + 1, (W + 2 * at(padding, 1) - at(kernel, 1)) //
          at(stride or kernel, 1) + 1).
    Zeros of the padding count as elements unless `count_include_pad` is False.
    """
    windows = _windows("avg_pool2d", 2, x, kernel, stride, padding, 1)
    return _avg_pool(x, windows, count_include_pad)


@roomy
def adaptive_avg_pool(x: Any, output_size: Sizes) -> Any:
    """The means of x over a grid of `output_size` cells.

    Shapes: (N, C, *s) -> (N, C, *output_size).
    As in PyTorch: cell i of m over n elements runs from floor(i n / m) to ceil((i + 1) n / m), so
    that cells may share elements.
    """
    if x.ndim < 3:
        raise ShapeError(f"adaptive_avg_pool: x is (N, C, ...), not {tuple(x.shape)}")
    x = red.floating(x)
    sizes = sizes_of("adaptive_avg_pool", "output_size", output_size, x.ndim - 2)
    for axis, m in enumerate(sizes, 2):
        x = _cell_means(x, axis, m)
    return x


def _cell_means(x: Any, axis: int, m: int) -> Any:
    """The means of `m` cells along `axis`: each gathers as many elements as the largest has."""
    n = int(x.shape[axis])
    if n == 0:
        raise ShapeError(f"adaptive_avg_pool: axis {axis} of {tuple(x.shape)} has no elements")
    start = np.arange(m) * n // m
    stop = -(-(np.arange(m) + 1) * n // m)
    at: Any = start[:, None] + np.arange(int((stop - start).max()))
    inside = at < stop[:, None]
    cells = take(moveaxis(x, axis, -1), np.where(inside, at, 0), axis=-1)
    total = red.sum(where(inside, cells, 0), axis=-1)
    return moveaxis(total / (stop - start).astype(x.dtype), -1, axis)
