"""Convolution in one to three dimensions, its transpose, columns and back: as in PyTorch.

Notation: N batch, C channels in, O channels out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Spec
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.shapes.padding import pad
from chainrule.ops.shapes.shaping import bias_like, reshape
from chainrule.ops.windows.convolution_forms import Convolve, ConvolveInput, Unfold
from chainrule.ops.windows.dimensions import by_dimension
from chainrule.ops.windows.windows import Sizes, Windows, sizes_of


def _check(what: str, x: Any, weight: Any, ndim: int) -> None:
    if x.ndim != ndim + 2 or weight.ndim != ndim + 2:
        raise ShapeError(
            f"{what}: x (N, C, ...) and weight have {ndim + 2} axes each, not {tuple(x.shape)} and "
            f"{tuple(weight.shape)}"
        )


def _check_channels(
    what: str, x: Any, weight: Any, groups: int, takes: int, fitting: tuple[int, ...]
) -> None:
    """Raise unless `groups` divide the weight's first axis and x has as many channels as it takes.

    `fitting` is the shape of a weight that takes those of x, if groups divide them.
    """
    shape, mine, channels = tuple(weight.shape), tuple(x.shape), x.shape[1]
    if groups < 1 or shape[0] % groups:
        raise ShapeError(
            f"{what}: groups divide the {shape[0]} channels of weight {shape} (axis 0), and "
            f"{groups} does not"
        )
    if channels == takes:
        return
    advice = f"x with {takes} channels fits"
    if mine[-1] == takes:
        advice = "if its channels are the last axis, write cr.moveaxis(x, -1, 1)"
    elif channels % groups == 0:
        advice = f"a weight {fitting} fits, or {advice}"
    split = f" in {groups} groups" if groups > 1 else ""
    raise ShapeError(
        f"{what}: x {mine} has {channels} channels (axis 1), but weight {shape} takes "
        f"{takes}{split}: {advice}"
    )


def _with_bias(what: str, y: Any, bias: Any) -> Any:
    if bias is None:
        return y
    if tuple(bias.shape) != (y.shape[1],):
        raise ShapeError(f"{what}: a bias has shape ({y.shape[1]},), not {tuple(bias.shape)}")
    return y + reshape(bias_like(bias, y), (-1, *[1] * (y.ndim - 2)))


def _conv(
    ndim: int, x: Any, weight: Any, bias: Any, stride: Sizes, padding: Any, dilation: Sizes, g: int
) -> Any:
    what = f"conv{ndim}d"
    _check(what, x, weight, ndim)
    outs, channels = weight.shape[:2]
    fitting = (outs, x.shape[1] // g, *weight.shape[2:]) if g > 0 else ()
    _check_channels(what, x, weight, g, channels * g, fitting)
    windows = Windows.over(what, x, weight.shape[2:], stride, padding, dilation)
    return _with_bias(what, apply(Convolve(windows, g), x, weight), bias)


def _conv_of(ndim: int):
    """The convolution of `ndim` axes."""

    def of_axes(
        x: Any,
        weight: Any,
        bias: Any = None,
        *,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Any:
        """Cross-correlation of x with weight, plus bias.

        Shapes: (N, C, {size}), (O, C // groups, {kernel}), (O) -> (N, O, {size})
              if padding == "same";
            (N, C, {size}), (O, C // groups, {kernel}), (O) -> (N, O, {out}) if padding == "valid";
            (N, C, *s), (O, C // groups, *k), (O) -> (N, O, *[
              (n + 2 * at(padding, i) - at(dilation, i) * (k[i] - 1) - 1) // at(stride, i) + 1
              for i, n in enumerate(s)]).
        As in PyTorch. `padding` zeros on both sides, or "valid" (none), or "same" (needs stride 1;
        of an odd number one more after). Each group of channels out sees one group of channels in.
        A size is one number for all axes, or one for each.

        >>> nn.functional.{name}(cr.ones((1, 2, {6s})), cr.ones((4, 2, {3s}))).shape
        (1, 4, {4s})
        """
        return _conv(ndim, x, weight, bias, stride, padding, dilation, groups)

    return of_axes


def _conv_transpose(
    ndim: int, x: Any, weight: Any, bias: Any, options: dict[str, Sizes], groups: int
) -> Any:
    """The transpose of a convolution of `ndim` axes, with checked arguments."""
    what = f"conv_transpose{ndim}d"
    _check(what, x, weight, ndim)
    _check_channels(what, x, weight, groups, weight.shape[0], (x.shape[1], *weight.shape[1:]))
    s, d = [sizes_of(what, n, options[n], ndim) for n in ("stride", "dilation")]
    p, extra = [sizes_of(what, n, options[n], ndim, 0) for n in ("padding", "output_padding")]
    if [1 for e, n, m in zip(extra, s, d, strict=True) if e >= max(n, m)]:
        raise ConfigError(
            f"{what}: output_padding {extra} must be smaller than stride {s} or dilation {d}"
        )
    kernel = tuple(weight.shape[2:])
    sizes = zip(x.shape[2:], kernel, s, p, d, extra, strict=True)
    size = tuple([(n - 1) * j - 2 * q + e * (k - 1) + o + 1 for n, k, j, q, e, o in sizes])
    if min(size) < 1:
        raise ShapeError(f"{what}: padding {p} leaves nothing of x {tuple(x.shape)}: {size}")
    windows = Windows(size, kernel, s, tuple([(n, n) for n in p]), d)
    if windows.out == tuple(x.shape[2:]):
        y = apply(ConvolveInput(windows, groups), x, weight)
    else:
        y = _uncropped(x, weight, windows, groups)
    return _with_bias(what, y, bias)


def _uncropped(x: Any, weight: Any, windows: Windows, groups: int) -> Any:
    """The part of the transpose that has the size of `windows`, which has room for more of them
    than x has elements: output_padding is as large as the stride."""
    axes = zip(x.shape[2:], windows.kernel, windows.stride, windows.dilation, strict=True)
    size = tuple([(n - 1) * s + d * (k - 1) + 1 for n, k, s, d in axes])
    whole = replace(windows, size=size, padding=((0, 0),) * len(size))
    y = apply(ConvolveInput(whole, groups), x, weight)
    ends = zip(windows.padding, windows.size, size, strict=True)
    more = [(0, max(0, a + m - n)) for (a, _), m, n in ends]
    firsts = zip(windows.padding, windows.size, strict=True)
    return pad(y, [(0, 0), (0, 0), *more])[(..., *[slice(a, a + m) for (a, _), m in firsts])]


def _conv_transpose_of(ndim: int):
    """The transposed convolution of `ndim` axes."""

    def of_axes(
        x: Any,
        weight: Any,
        bias: Any = None,
        *,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
    ) -> Any:
        """The transpose of `conv{n}d` in x, as in PyTorch.

        Shapes: (N, C, *s), (C, O, *k), (O * groups) -> (N, O * groups, *[
              (n - 1) * at(stride, i) - 2 * at(padding, i) + at(dilation, i) * (k[i] - 1)
              + at(output_padding, i) + 1 for i, n in enumerate(s)]).

        >>> nn.functional.{name}(cr.ones((1, 2, {4s})), cr.ones((2, 3, {3s}))).shape
        (1, 3, {6s})
        """
        options = {"stride": stride, "padding": padding, "dilation": dilation}
        options["output_padding"] = output_padding
        return _conv_transpose(ndim, x, weight, bias, options, groups)

    return of_axes


conv1d, conv2d, conv3d = by_dimension("conv", _conv_of)
conv_transpose1d, conv_transpose2d, conv_transpose3d = by_dimension(
    "conv_transpose", _conv_transpose_of
)


def unfold(
    x: Any, kernel: Sizes, *, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1
) -> Any:
    """What each window sees of x, as columns, as in PyTorch.

    Shapes: (N, C, *s) -> (N, C * prod(at(kernel, i) for i in range(len(s))), L).
    Kernel places within each channel, and the L places of the window, in row-major order.

    >>> nn.functional.unfold(cr.ones((1, 2, 3, 3)), 2).shape
    (1, 8, 4)
    """
    if x.ndim < 3:
        raise ShapeError(f"unfold: x is (N, C, ...) with at least 3 axes, not {tuple(x.shape)}")
    k = sizes_of("unfold", "kernel", kernel, x.ndim - 2)
    return apply(Unfold(Windows.over("unfold", x, k, stride, padding, dilation), False), x)


def fold(
    x: Any,
    output_size: Sizes,
    kernel: Sizes,
    *,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
) -> Any:
    """The transpose of `unfold`: columns added to where they came from, as in PyTorch.

    Shapes: (N, K, L) -> (N, C, H, W).
    `output_size` (H, W) is the size of the image; K is C times the number of kernel places.

    >>> nn.functional.fold(cr.ones((1, 4, 4)), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]], dtype=float32)
    """
    size, k = sizes_of("fold", "output_size", output_size, 2), sizes_of("fold", "kernel", kernel, 2)
    image = Spec((1, 1, *size), np.dtype(np.float32))
    windows = Windows.over("fold", image, k, stride, padding, dilation)
    places, count = math.prod(k), math.prod(windows.out)
    if x.ndim != 3 or x.shape[1] % places or x.shape[2] != count:
        raise ShapeError(
            f"fold: an image {size} has {count} windows {k}, so x is (N, C * {places}, {count}), "
            f"not {tuple(x.shape)}"
        )
    return apply(Unfold(windows, True), x)
