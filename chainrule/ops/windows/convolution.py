"""Convolution in one to three dimensions, its transpose, columns and back: as in PyTorch.

Notation: N batch, C channels in, O channels out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Spec
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.shapes.shaping import beside, reshape
from chainrule.ops.windows.convolution_forms import Convolve, ConvolveInput, Unfold
from chainrule.ops.windows.windows import Sizes, Windows, sizes_of


def _check(what: str, x: Any, weight: Any, ndim: int) -> None:
    if x.ndim != ndim + 2 or weight.ndim != ndim + 2:
        raise ShapeError(
            f"{what}: x (N, C, ...) and weight have {ndim + 2} axes each, not {tuple(x.shape)} and "
            f"{tuple(weight.shape)}"
        )


def _with_bias(what: str, y: Any, bias: Any) -> Any:
    if bias is None:
        return y
    if tuple(bias.shape) != (y.shape[1],):
        raise ShapeError(f"{what}: a bias has shape ({y.shape[1]},), not {tuple(bias.shape)}")
    return y + reshape(beside(bias, y), (-1, *[1] * (y.ndim - 2)))


def _conv(
    ndim: int, x: Any, weight: Any, bias: Any, stride: Sizes, padding: Any, dilation: Sizes, g: int
) -> Any:
    what = f"conv{ndim}d"
    _check(what, x, weight, ndim)
    outs, channels = weight.shape[:2]
    if g < 1 or x.shape[1] != channels * g or outs % g:
        raise ShapeError(
            f"{what}: x {tuple(x.shape)} has {x.shape[1]} channels; weight {tuple(weight.shape)} "
            f"in {g} groups takes {channels * g}, and gives {outs}, which must divide by {g}"
        )
    windows = Windows.over(what, x, weight.shape[2:], stride, padding, dilation)
    return _with_bias(what, apply(Convolve(windows, g), x, weight), bias)


def conv1d(
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

    Shapes: (N, C, W), (O, C // groups, K), (O) -> (N, O, W) if padding == "same";
        (N, C, W), (O, C // groups, K), (O) ->
          (N, O, (W - at(dilation, 0) * (K - 1) - 1) // at(stride, 0) + 1) if padding == "valid";
        (N, C, W), (O, C // groups, K), (O) ->
          (N, O, (W + 2 * at(padding, 0) - at(dilation, 0) * (K - 1) - 1) // at(stride, 0) + 1).
    As in PyTorch. `padding` zeros on both sides, or "valid" (none), or "same" (needs stride
    1; of an odd number one more after). Each group of channels out sees one group of channels in.
    """
    return _conv(1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
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

    Shapes: (N, C, H, W), (O, C // groups, I, J), (O) -> (N, O, H, W) if padding == "same";
        (N, C, H, W), (O, C // groups, I, J), (O) -> (N, O, P, Q) if padding == "valid";
        (N, C, H, W), (O, C // groups, I, J), (O) ->
          (N, O, (H + 2 * at(padding, 0) - at(dilation, 0) * (I - 1) - 1) // at(stride, 0) + 1,
          (W + 2 * at(padding, 1) - at(dilation, 1) * (J - 1) - 1) // at(stride, 1) + 1).
    As `conv1d`, with one size for both dimensions or one for each.
    """
    return _conv(2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
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

    Shapes: (N, C, *s), (O, C // groups, *k), (O) -> (N, O, *s) if padding == "same";
        (N, C, *s), (O, C // groups, *k), (O) -> (N, O, P, Q, R) if padding == "valid";
        (N, C, *s), (O, C // groups, *k), (O) -> (N, O, *[
          (n + 2 * at(padding, i) - at(dilation, i) * (k[i] - 1) - 1) // at(stride, i) + 1
          for i, n in enumerate(s)]).
    As `conv1d`, with one size for all three dimensions or one for each.
    """
    return _conv(3, x, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    ndim: int, x: Any, weight: Any, bias: Any, options: dict[str, Sizes], groups: int
) -> Any:
    what = f"conv_transpose{ndim}d"
    _check(what, x, weight, ndim)
    if groups < 1 or x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise ShapeError(
            f"{what}: x {tuple(x.shape)} and weight {tuple(weight.shape)} need the same number of "
            f"channels in (axis 1 and axis 0), which must divide by {groups} groups"
        )
    s, d = [sizes_of(what, n, options[n], ndim) for n in ("stride", "dilation")]
    p, extra = [sizes_of(what, n, options[n], ndim, 0) for n in ("padding", "output_padding")]
    if [1 for e, n in zip(extra, s, strict=True) if e >= n]:
        raise ConfigError(f"{what}: output_padding {extra} must be smaller than stride {s}")
    kernel = tuple(weight.shape[2:])
    sizes = zip(x.shape[2:], kernel, s, p, d, extra, strict=True)
    size = tuple([(n - 1) * j - 2 * q + e * (k - 1) + o + 1 for n, k, j, q, e, o in sizes])
    if min(size) < 1:
        raise ShapeError(f"{what}: padding {p} leaves nothing of x {tuple(x.shape)}: {size}")
    windows = Windows(size, kernel, s, tuple([(n, n) for n in p]), d)
    return _with_bias(what, apply(ConvolveInput(windows, groups), x, weight), bias)


def conv_transpose1d(
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
    """The transpose of `conv1d` in x, as in PyTorch.

    Shapes: (N, C, W), (C, O, K), (O * groups) ->
          (N, O * groups, (W - 1) * at(stride, 0) - 2 * at(padding, 0) + at(dilation, 0) * (K - 1)
          + at(output_padding, 0) + 1).
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    options["output_padding"] = output_padding
    return _conv_transpose(1, x, weight, bias, options, groups)


def conv_transpose2d(
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
    """The transpose of `conv2d` in x, as in PyTorch.

    Shapes: (N, C, H, W), (C, O, I, J), (O * groups) ->
          (N, O * groups, (H - 1) * at(stride, 0) - 2 * at(padding, 0) + at(dilation, 0) * (I - 1)
          + at(output_padding, 0) + 1, (W - 1) * at(stride, 1) - 2 * at(padding, 1) +
          at(dilation, 1) * (J - 1) + at(output_padding, 1) + 1).
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    options["output_padding"] = output_padding
    return _conv_transpose(2, x, weight, bias, options, groups)


def conv_transpose3d(
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
    """The transpose of `conv3d` in x, as in PyTorch.

    Shapes: (N, C, *s), (C, O, *k), (O * groups) -> (N, O * groups, *[
          (n - 1) * at(stride, i) - 2 * at(padding, i) + at(dilation, i) * (k[i] - 1)
          + at(output_padding, i) + 1 for i, n in enumerate(s)]).
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    options["output_padding"] = output_padding
    return _conv_transpose(3, x, weight, bias, options, groups)


def unfold(
    x: Any, kernel: Sizes, *, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1
) -> Any:
    """What each window sees of x, as columns, as in PyTorch.

    Shapes: (N, C, *s) -> (N, C * prod(at(kernel, i) for i in range(len(s))), L).
    Kernel places within each channel, and the L places of the window, in row-major order.
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
