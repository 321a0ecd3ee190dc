"""Pooling as modules: maxima and means of windows, or of a grid of given size. PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, final

from chainrule.nn import functional
from chainrule.nn.module import Module
from chainrule.nn.unbatched import batched
from chainrule.ops.windows import Sizes, sizes_of
from chainrule.tensors import Tensor

Pool = Callable[..., Any]


class _Pool(Module):
    """Windows of one size; an example may come without the axis of the batch."""

    ndim: ClassVar[int]
    pool: ClassVar[Pool]

    def _begin(self, kernel_size: Sizes, **settings: Any) -> None:
        name = type(self).__name__
        sizes_of(name, "kernel_size", kernel_size, self.ndim)
        self.kernel_size = kernel_size
        if settings["stride"] is not None:
            sizes_of(name, "stride", settings["stride"], self.ndim)
        self._settings = settings

    def _forward(self, x: Any) -> Tensor:
        f, k, settings = type(self).pool, self.kernel_size, self._settings
        return batched(type(self).__name__, lambda x: f(x, k, **settings), x, self.ndim)


class _MaxPool(_Pool):
    """The maximum of each window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> None:
        self._begin(
            kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
        )


class _AvgPool(_Pool):
    """The mean of each window, or its sum divided by `divisor_override`."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self._begin(
            kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad, divisor_override=divisor_override,
        )  # fmt: skip


class _Adaptive(Module):
    """A grid of `output_size`."""

    ndim: ClassVar[int]
    pool: ClassVar[Pool]

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        sizes = (
            [output_size] if output_size is None or isinstance(output_size, int) else output_size
        )
        if len(sizes) > 1 or not isinstance(output_size, int):
            sizes_of(type(self).__name__, "output_size", [n or 1 for n in sizes], len(sizes))
        self.output_size = output_size

    def _forward(self, x: Any) -> Tensor:
        sizes, n = self.output_size, self.ndim
        wanted = [sizes] * n if sizes is None or isinstance(sizes, int) else list(sizes)
        kept = [m if w is None else w for w, m in zip(wanted, x.shape[-n:], strict=True)]
        return batched(type(self).__name__, lambda x: type(self).pool(x, kept), x, n)


@final
class MaxPool1d(_MaxPool):
    """`chainrule.nn.functional.max_pool1d`; the stride is the kernel's size unless given."""

    ndim: ClassVar[int] = 1
    pool: ClassVar[Pool] = staticmethod(functional.max_pool1d)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, W) -> (*b, C, P)."""
        return self._forward(x)


@final
class MaxPool2d(_MaxPool):
    """`chainrule.nn.functional.max_pool2d`; the stride is the kernel's size unless given."""

    ndim: ClassVar[int] = 2
    pool: ClassVar[Pool] = staticmethod(functional.max_pool2d)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, H, W) -> (*b, C, P, Q)."""
        return self._forward(x)


@final
class MaxPool3d(_MaxPool):
    """`chainrule.nn.functional.max_pool3d`; the stride is the kernel's size unless given."""

    ndim: ClassVar[int] = 3
    pool: ClassVar[Pool] = staticmethod(functional.max_pool3d)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, D, H, W) -> (*b, C, P, Q, R)."""
        return self._forward(x)


@final
class AvgPool1d(_Pool):
    """`chainrule.nn.functional.avg_pool1d`; the stride is the kernel's size unless given."""

    ndim: ClassVar[int] = 1
    pool: ClassVar[Pool] = staticmethod(functional.avg_pool1d)

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._begin(
            kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )  # fmt: skip

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, W) -> (*b, C, P)."""
        return self._forward(x)


@final
class AvgPool2d(_AvgPool):
    """`chainrule.nn.functional.avg_pool2d`; the stride is the kernel's size unless given."""

    ndim: ClassVar[int] = 2
    pool: ClassVar[Pool] = staticmethod(functional.avg_pool2d)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, H, W) -> (*b, C, P, Q)."""
        return self._forward(x)


@final
class AvgPool3d(_AvgPool):
    """`chainrule.nn.functional.avg_pool3d`; the stride is the kernel's size unless given."""

    ndim: ClassVar[int] = 3
    pool: ClassVar[Pool] = staticmethod(functional.avg_pool3d)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, D, H, W) -> (*b, C, P, Q, R)."""
        return self._forward(x)


@final
class AdaptiveAvgPool1d(_Adaptive):
    """`chainrule.nn.functional.adaptive_avg_pool` to a given size; None keeps an axis's own."""

    ndim: ClassVar[int] = 1
    pool: ClassVar[Pool] = staticmethod(functional.adaptive_avg_pool)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, W) -> (*b, C, P)."""
        return self._forward(x)


@final
class AdaptiveAvgPool2d(_Adaptive):
    """`chainrule.nn.functional.adaptive_avg_pool` to a given size; None keeps an axis's own."""

    ndim: ClassVar[int] = 2
    pool: ClassVar[Pool] = staticmethod(functional.adaptive_avg_pool)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, H, W) -> (*b, C, P, Q)."""
        return self._forward(x)


@final
class AdaptiveAvgPool3d(_Adaptive):
    """`chainrule.nn.functional.adaptive_avg_pool` to a given size; None keeps an axis's own."""

    ndim: ClassVar[int] = 3
    pool: ClassVar[Pool] = staticmethod(functional.adaptive_avg_pool)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, D, H, W) -> (*b, C, P, Q, R)."""
        return self._forward(x)


@final
class AdaptiveMaxPool1d(_Adaptive):
    """`chainrule.nn.functional.adaptive_max_pool` to a given size; None keeps an axis's own."""

    ndim: ClassVar[int] = 1
    pool: ClassVar[Pool] = staticmethod(functional.adaptive_max_pool)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, W) -> (*b, C, P)."""
        return self._forward(x)


@final
class AdaptiveMaxPool2d(_Adaptive):
    """`chainrule.nn.functional.adaptive_max_pool` to a given size; None keeps an axis's own."""

    ndim: ClassVar[int] = 2
    pool: ClassVar[Pool] = staticmethod(functional.adaptive_max_pool)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, H, W) -> (*b, C, P, Q)."""
        return self._forward(x)


@final
class AdaptiveMaxPool3d(_Adaptive):
    """`chainrule.nn.functional.adaptive_max_pool` to a given size; None keeps an axis's own."""

    ndim: ClassVar[int] = 3
    pool: ClassVar[Pool] = staticmethod(functional.adaptive_max_pool)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*b, C, D, H, W) -> (*b, C, P, Q, R)."""
        return self._forward(x)
