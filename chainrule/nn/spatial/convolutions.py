"""Convolutions of one to three dimensions, and their transposes, as modules. PyTorch's names."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, final

import numpy as np

from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.nn import functional
from chainrule.nn.base.unbatched_examples import with_batch_axis
from chainrule.nn.init import uniform_
from chainrule.nn.layers import check_sizes, parameter
from chainrule.nn.spatial.sized_modules import SizedModule
from chainrule.ops.windows.windows import Sizes, sizes_of
from chainrule.random import Generator

Mode = Literal["zeros", "reflect", "replicate", "circular"]


class _Convolution(SizedModule):
    """What all share: a weight and a bias, uniform in +-1 / sqrt(inputs of an output)."""

    transposed: ClassVar[bool] = False

    def _begin(
        self,
        channels: tuple[int, int],
        kernel_size: Sizes,
        settings: dict[str, Any],
        bias: bool,
        dtype: Any,
        generator: Generator | None,
    ) -> None:
        """Set the settings, and draw weight and bias as PyTorch does."""
        name, (ins, outs), groups = type(self).__name__, channels, settings["groups"]
        check_sizes(name, in_channels=ins, out_channels=outs, groups=groups)
        if ins % groups or outs % groups:
            raise ConfigError(f"{name}: {groups} groups do not divide {ins} and {outs} channels")
        self.in_channels, self.out_channels = ins, outs
        self.kernel_size = sizes_of(name, "kernel_size", kernel_size, self.ndim)
        self._settings = settings
        shape = (ins, outs // groups) if self.transposed else (outs, ins // groups)
        self.weight = parameter((*shape, *self.kernel_size), 0.0, dtype)
        self.bias = parameter((outs,), 0.0, dtype) if bias else None
        bound = 1 / math.sqrt(shape[1] * math.prod(self.kernel_size))
        for t in (self.weight, self.bias):
            if t is not None:
                uniform_(t, -bound, bound, generator=generator)


class _Conv(_Convolution):
    """Cross-correlation of x with the weight (out, in / groups, *kernel_size), plus the bias (out).

    `padding` on both sides, of zeros or as `padding_mode` says; "same" or "valid". An example may
    come without the axis of the batch.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Mode = "zeros",
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ConfigError(
                f"{type(self).__name__}: padding_mode is 'zeros', 'reflect', 'replicate' or "
                f"'circular', not {padding_mode!r}"
            )
        settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        channels = in_channels, out_channels
        self._mode = padding_mode
        self._begin(channels, kernel_size, settings, bias, dtype, generator)

    def _widths(self) -> list[int]:
        """What to pad beforehand, the last axis first."""
        padding, n = self._settings["padding"], self.ndim
        if padding == "valid":
            return [0] * 2 * n
        if padding == "same":
            d = sizes_of("dilation", "dilation", self._settings["dilation"], n)
            total = [a * (k - 1) for a, k in zip(d, self.kernel_size, strict=True)]
            return [w for t in reversed(total) for w in (t // 2, t - t // 2)]
        return [w for w in reversed(sizes_of("padding", "padding", padding, n, 0)) for _ in "ab"]

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, in_channels, {size}) -> (*b, out_channels, {out})."""
        f = getattr(functional, f"conv{self.ndim}d")
        settings = self._settings

        def convolve(x: Any) -> Any:
            if self._mode == "zeros":
                return f(x, self.weight, self.bias, **settings)
            wider = functional.pad(x, self._widths(), self._mode)
            return f(wider, self.weight, self.bias, **{**settings, "padding": 0})

        return with_batch_axis(type(self).__name__, convolve, x, self.ndim)


class _ConvTranspose(_Convolution):
    """The transpose of a convolution in x: weight (in, out / groups, *kernel_size), bias (out).

    An example may come without the axis of the batch. `output_size` in a call chooses
    `output_padding`.
    """

    transposed: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        settings = {
            "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
            "output_padding": output_padding,
        }  # fmt: skip
        channels = in_channels, out_channels
        self._begin(channels, kernel_size, settings, bias, dtype, generator)

    def forward(self, x: Any, output_size: Sizes | None = None) -> Tensor:
        """Shapes: (*b, in_channels, {size}) -> (*b, out_channels, {out})."""
        name, n = type(self).__name__, self.ndim
        settings = dict(self._settings)
        if output_size is not None:
            wanted = sizes_of(name, "output_size", output_size, n)
            s, d = [sizes_of(name, key, settings[key], n) for key in ("stride", "dilation")]
            p = sizes_of(name, "padding", settings["padding"], n, 0)
            least = [
                (m - 1) * a - 2 * q + e * (k - 1) + 1
                for m, a, q, e, k in zip(x.shape[-n:], s, p, d, self.kernel_size, strict=True)
            ]
            extra = [w - m for w, m in zip(wanted, least, strict=True)]
            if [1 for e, a in zip(extra, s, strict=True) if not 0 <= e < a]:
                most = [m + a - 1 for m, a in zip(least, s, strict=True)]
                raise ConfigError(
                    f"{name}: output_size {wanted} is not between {tuple(least)} and {tuple(most)}"
                )
            settings["output_padding"] = tuple(extra)
        f = getattr(functional, f"conv_transpose{n}d")
        return with_batch_axis(name, lambda x: f(x, self.weight, self.bias, **settings), x, n)


@final
class Conv1d(_Conv, ndim=1):
    """`chainrule.nn.functional.conv1d` with a weight and a bias of its own.

    >>> nn.Conv1d(2, 4, kernel_size=3, padding=1)(cr.ones((1, 2, 6))).shape
    (1, 4, 6)
    """


@final
class Conv2d(_Conv, ndim=2):
    """`chainrule.nn.functional.conv2d` with a weight and a bias of its own.

    >>> nn.Conv2d(2, 4, kernel_size=3, padding=1)(cr.ones((1, 2, 6, 8))).shape
    (1, 4, 6, 8)
    """


@final
class Conv3d(_Conv, ndim=3):
    """`chainrule.nn.functional.conv3d` with a weight and a bias of its own.

    >>> nn.Conv3d(2, 4, kernel_size=3, padding=1)(cr.ones((1, 2, 4, 6, 8))).shape
    (1, 4, 4, 6, 8)
    """


@final
class ConvTranspose1d(_ConvTranspose, ndim=1):
    """`chainrule.nn.functional.conv_transpose1d` with a weight and a bias of its own.

    >>> nn.ConvTranspose1d(2, 4, kernel_size=2, stride=2)(cr.ones((1, 2, 6))).shape
    (1, 4, 12)
    """


@final
class ConvTranspose2d(_ConvTranspose, ndim=2):
    """`chainrule.nn.functional.conv_transpose2d` with a weight and a bias of its own.

    >>> nn.ConvTranspose2d(2, 4, kernel_size=2, stride=2)(cr.ones((1, 2, 6, 8))).shape
    (1, 4, 12, 16)
    """


@final
class ConvTranspose3d(_ConvTranspose, ndim=3):
    """`chainrule.nn.functional.conv_transpose3d` with a weight and a bias of its own.

    >>> nn.ConvTranspose3d(2, 4, kernel_size=2, stride=2)(cr.ones((1, 2, 2, 3, 4))).shape
    (1, 4, 4, 6, 8)
    """
