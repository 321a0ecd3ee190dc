"""Convolution in any number of dimensions, its transpose, and the unfolding that both rest on.

y[n, o, p] = sum over c, k of w[o, c, k] x[n, c, p stride + k dilation - padding]: a matrix product
of the weight with columns, each the elements that one window sees. The three ops here are the three
ways to read the trilinear form sum(g y) in (x, w, g): each one's derivatives are the other two.

Notation: N batch, C channels in, O channels out, K kernel places, L output places.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from chainrule.dtypes import result_type, rounded_once
from chainrule.errors import ConfigError, ShapeError
from chainrule.graph import apply
from chainrule.op import Array, Need, Spec
from chainrule.ops.families import Linear, Multilinear
from chainrule.ops.shaping import Shape, beside, reshape
from chainrule.ops.windows import Sizes, Windows, sizes_of

Roles = tuple[str, ...]
"""Parts that operands play in the trilinear form: "x", "w", "g"."""


class Convolution(Multilinear):
    """The form sum(g y) without one of x (N, C, *size), w (O, C / groups, *kernel), g (N, O, *out).

    A form of the three below is the derivative for whichever operand it does not take.
    """

    windows: Windows
    groups: int
    ins: ClassVar[Roles]
    """Which operands it takes."""
    out: ClassVar[str]
    """Which one it gives: the operand that it does not take."""
    count: ClassVar[int] = 2  # pyright: ignore[reportIncompatibleVariableOverride]

    @abstractmethod
    def shape(self, *xs: Any) -> Shape:
        """The result's shape, from those of the inputs."""

    def spec(self, *xs: Any) -> Spec:
        """The shape, and the promoted dtype."""
        return Spec(self.shape(*xs), result_type(xs[0].dtype, xs[1].dtype))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """For each operand the form without it; the cotangent stands where the result stood."""
        operands = {self.out: g, **dict(zip(self.ins, xs, strict=True))}
        bars: list[Any] = []
        for role, needed in zip(self.ins, need, strict=True):
            form = _WITHOUT[role]
            given = [operands[r] for r in form.ins]
            bars.append(apply(form(self.windows, self.groups), *given) if needed else None)
        return bars

    def _grouped(self, a: Array) -> Array:
        """(N, groups * rows, L) -> (N, groups, rows, L)."""
        return a.reshape(a.shape[0], self.groups, a.shape[1] // self.groups, a.shape[2])

    def _matrix(self, w: Array) -> Array:
        """(O, C / groups, *kernel) -> (groups, O / groups, C / groups K)."""
        return w.reshape(self.groups, w.shape[0] // self.groups, -1)

    def _flat(self, g: Array) -> Array:
        """(N, O, *out) -> (N, groups, O / groups, L)."""
        return self._grouped(g.reshape(*g.shape[:2], -1))


class Convolve(Convolution):
    """(x, w) -> y."""

    ins: ClassVar[Roles] = ("x", "w")
    out: ClassVar[str] = "g"

    @property
    def name(self) -> str:
        """`conv`."""
        return "conv"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """One matrix product for each example and group."""
        x, w = xs
        y = np.empty(self.shape(x, w), result_type(x.dtype, w.dtype))
        for run in self.windows.runs(x):
            columns = self._grouped(self.windows.columns(x[run]))
            np.matmul(self._matrix(w), columns, out=self._flat(y[run]))
        return y

    def shape(self, *xs: Any) -> Shape:
        """(N, O, *out)."""
        x, w = xs
        return (x.shape[0], w.shape[0], *self.windows.out)


class ConvolveInput(Convolution):
    """(g, w) -> x_bar: the transposed convolution."""

    ins: ClassVar[Roles] = ("g", "w")
    out: ClassVar[str] = "x"

    @property
    def name(self) -> str:
        """`conv_transpose`."""
        return "conv_transpose"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """A matrix product gives the columns, which are added to where they came from."""
        g, w = xs
        x = np.empty(self.shape(g, w), result_type(g.dtype, w.dtype))
        for run in self.windows.runs(x):
            columns = np.matmul(self._matrix(w).swapaxes(1, 2), self._flat(g[run]))
            x[run] = self.windows.folded(columns)
        return x

    def shape(self, *xs: Any) -> Shape:
        """(N, C, *size)."""
        g, w = xs
        return (g.shape[0], w.shape[1] * self.groups, *self.windows.size)


class ConvolveWeight(Convolution):
    """(x, g) -> w_bar."""

    ins: ClassVar[Roles] = ("x", "g")
    out: ClassVar[str] = "w"

    @property
    def name(self) -> str:
        """`conv_weight`."""
        return "conv_weight"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """A matrix product for each example, then their sum."""
        x, g = xs
        w = np.zeros(self.shape(x, g), result_type(x.dtype, g.dtype))
        for run in self.windows.runs(x):
            columns = self._grouped(self.windows.columns(x[run]))
            each = np.matmul(self._flat(g[run]), columns.swapaxes(2, 3))
            w += np.add.reduce(each, axis=0).reshape(w.shape)
        return w

    def shape(self, *xs: Any) -> Shape:
        """(O, C / groups, *kernel)."""
        x, g = xs
        return (g.shape[1], x.shape[1] // self.groups, *self.windows.kernel)


_WITHOUT: dict[str, type[Convolution]] = {
    form.out: form for form in (Convolve, ConvolveInput, ConvolveWeight)
}


class Unfold(Linear):
    """(N, C, *size) -> (N, C K, L); with `back`, its transpose."""

    windows: Windows
    back: bool

    @property
    def name(self) -> str:
        """`unfold` or `fold`."""
        return "fold" if self.back else "unfold"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """A copy; back, a sum."""
        return self.windows.folded(xs[0]) if self.back else self.windows.columns(xs[0])

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the input's dtype."""
        (x,), w = xs, self.windows
        places = math.prod(w.kernel)
        if self.back:
            return Spec((x.shape[0], x.shape[1] // places, *w.size), x.dtype)
        return Spec((x.shape[0], x.shape[1] * places, math.prod(w.out)), x.dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The other direction."""
        return (apply(Unfold(self.windows, not self.back), g),)


# --- Functions -----------------------------------------------------------------------------------


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


def _transposed(
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
    return _transposed(1, x, weight, bias, options, groups)


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
    return _transposed(2, x, weight, bias, options, groups)


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
