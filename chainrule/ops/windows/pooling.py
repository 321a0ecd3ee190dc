"""Pooling: the maximum or the mean of each window of x (N, C, *size).

Arguments are PyTorch's. `stride` is the kernel's size unless it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from chainrule.engine.dtypes import REAL, rounded_once
from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.families import Linear
from chainrule.ops.indexing.selection import take
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import reshape, roomy
from chainrule.ops.windows.dimensions import by_dimension
from chainrule.ops.windows.windows import Sizes, Windows, sizes_of


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
        offset, start, first = _places(w)
        value = w.pad(x, -math.inf if x.dtype.kind in REAL else np.iinfo(x.dtype).min)
        keys = list(w.kernel_slices())
        top = value[keys[0]].copy()
        which = np.zeros(top.shape, np.min_scalar_type(len(keys)))
        has_nan = x.dtype.kind in REAL and x.size and np.isnan(x.max())
        for k, key in enumerate(keys[1:], 1):
            v = np.ascontiguousarray(value[key])
            better = v > top
            if has_nan:
                better |= (v != v) & (top == top)
            if first is not None:
                better |= first[k]
            # k is larger than all before
            np.maximum(which, np.multiply(better, k, dtype=which.dtype), out=which)
            np.maximum(top, v, out=top)
        index = offset.take(which)
        index += start
        if first is not None and not first.any(axis=0).all():
            np.copyto(index, -1, where=~first.any(axis=0))  # windows that see padding alone
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
        first, *rest = w.kernel_slices()
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


@lru_cache(maxsize=256)
def _places(w: Windows) -> tuple[Array, Array, Array | None]:
    """What is seen of the flattened size: kernel place k of window p sees `offset[k] + start[p]`.

    `first[k, *p]` says whether that is the first place of the window that is no padding; None if
    there is none.
    """
    offset, start = np.zeros(w.kernel, np.int64), np.zeros(w.out, np.int64)
    inside = np.ones((*w.kernel, *w.out), bool)
    for i, (n, (before, _)) in enumerate(zip(w.size, w.padding, strict=True)):
        step = math.prod(w.size[i + 1 :])
        row = [-1 if a == i else 1 for a in range(w.ndim)]
        within = np.arange(w.kernel[i]) * w.dilation[i]
        begin = np.arange(w.out[i]) * w.stride[i] - before
        offset += (within * step).reshape(row)
        start += (begin * step).reshape(row)
        at = within.reshape(*row, *[1] * w.ndim) + begin.reshape(row)
        inside &= (at >= 0) & (at < n)
    if w.padded == w.size:
        return offset.ravel(), start, None
    inside = inside.reshape(-1, *w.out)
    first = inside.copy()
    first[1:] &= ~np.logical_or.accumulate(inside, axis=0)[:-1]
    return offset.ravel(), start, first


def _windows(
    what: str,
    ndim: int,
    x: Any,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Any,
    partial: bool,
) -> Windows:
    """Checked windows over the last `ndim` axes of x; `partial` ones begin within x and end
    outside."""
    if x.ndim != ndim + 2:
        raise ShapeError(f"{what}: x is (N, C, *size) with {ndim + 2} axes, not {tuple(x.shape)}")
    k, p = sizes_of(what, "kernel", kernel, ndim), sizes_of(what, "padding", padding, ndim, 0)
    if [1 for n, m in zip(p, k, strict=True) if 2 * n > m]:
        raise ConfigError(f"{what}: padding {p} is more than half of the kernel {k}")
    steps = k if stride is None else stride
    return Windows.over(what, x, k, steps, p, dilation, partial=partial)


def _max_pool(x: Any, windows: Windows, return_indices: bool) -> Any:
    index = apply(WindowArg(windows), x)  # within each (example, channel)
    y = elements_at(x, index)
    return (y, index) if return_indices else y


def elements_at(x: Any, index: Any) -> Any:
    """Elements of x (N, C, *size) at places (N, C, *any) of each flattened size."""
    n, c = int(x.shape[0]), int(x.shape[1])
    start = (np.arange(n * c) * math.prod(x.shape[2:])).reshape(n, c, *[1] * (index.ndim - 2))
    flat = reshape(index + start, (-1,))
    return reshape(take(reshape(x, (-1,)), flat, axis=0), tuple(index.shape))


@roomy
def _avg_pool(
    x: Any, windows: Windows, padding: Sizes, count_include_pad: bool, divisor: int | None
) -> Any:
    """The sum of each window, divided by `divisor`, or by how many elements count."""
    x = red.floating(x)
    total = apply(WindowSum(windows, False), x)
    if divisor is not None:
        if type(divisor) is not int or divisor == 0:
            raise ConfigError(f"avg_pool: divisor_override is an integer, not {divisor!r}")
        return total / divisor
    pads = sizes_of("avg_pool", "padding", padding, windows.ndim, 0)
    asked = tuple([(p, p) for p in pads])
    if count_include_pad and asked == windows.padding:
        return total / math.prod(windows.kernel)
    ones = np.ones(windows.size, x.dtype)
    if count_include_pad:  # what was asked for counts, what was added for partial windows does not
        ones = np.pad(ones, asked, constant_values=1)
        more = [(0, b - p) for (_, b), p in zip(windows.padding, pads, strict=True)]
        windows = replace(windows, size=ones.shape, padding=tuple(more))
    return total / WindowSum(windows, False).eval(ones)


def _max_pool_of(ndim: int):
    """The function of `ndim` axes."""

    def of_axes(
        x: Any,
        kernel: Sizes,
        *,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The maximum of each window of x.

        Shapes: (N, C, {size}) -> (N, C, {out}), (N, C, {out}) if return_indices;
            (N, C, {size}) -> (N, C, {out}) if ceil_mode;
            (N, C, *s) -> (N, C, *[
              (n + 2 * at(padding, i) - at(dilation, i) * (at(kernel, i) - 1) - 1) //
              at(stride or kernel, i) + 1 for i, n in enumerate(s)]).
        The gradient goes to the first maximum of a window, in row-major order. Padding is never the
        maximum; NaN is. With `ceil_mode` the last windows may end behind the array.
        `return_indices` adds where the maxima stand in each flattened size, for `max_unpool`.

        >>> nn.functional.{name}(cr.ones((1, 3, {6s})), 2).shape
        (1, 3, {3s})
        """
        what = f"max_pool{ndim}d"
        windows = _windows(what, ndim, x, kernel, stride, padding, dilation, ceil_mode)
        return _max_pool(x, windows, return_indices)

    return of_axes


def _avg_pool_of(ndim: int):
    """The function of `ndim` axes."""

    def of_axes(
        x: Any,
        kernel: Sizes,
        *,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        """The mean of each window of x.

        Shapes: (N, C, {size}) -> (N, C, {out}) if ceil_mode;
            (N, C, *s) -> (N, C, *[(n + 2 * at(padding, i) - at(kernel, i)) //
              at(stride or kernel, i) + 1 for i, n in enumerate(s)]).
        Zeros of the padding count as elements unless `count_include_pad` is False. With `ceil_mode`
        the last windows may end behind the padding, where nothing counts. `divisor_override` stands
        in place of their number.

        >>> nn.functional.{name}(cr.ones((1, 3, {6s})), 2).shape
        (1, 3, {3s})
        """
        windows = _windows(f"avg_pool{ndim}d", ndim, x, kernel, stride, padding, 1, ceil_mode)
        return _avg_pool(x, windows, padding, count_include_pad, divisor_override)

    return of_axes


max_pool1d, max_pool2d, max_pool3d = by_dimension("max_pool", _max_pool_of)
avg_pool1d, avg_pool2d, avg_pool3d = by_dimension("avg_pool", _avg_pool_of)
