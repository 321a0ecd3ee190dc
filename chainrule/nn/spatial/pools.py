"""Pooling as modules: maxima, means and norms of windows, or of a grid of given size, and back.

A table with PyTorch's names and defaults; each row is a class for one, two and three axes. An
example may come without the axis of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, final

from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.nn import functional
from chainrule.nn.base.made_of_functions import Check, Made, Row, class_of_row
from chainrule.nn.base.module import Module
from chainrule.nn.base.unbatched import with_batch_axis
from chainrule.ops.windows.windows import Sizes, sizes_of


def _sizes(ndim: int, *, least: int = 1, optional: bool = False, whole: bool = False) -> Check:
    """Of a setting: one size for all axes, or one for each; may be None, or (`whole`) hold it."""

    def holds(value: Any) -> bool:
        if value is None:
            return optional or whole
        known = [n or least for n in value] if whole and not isinstance(value, int) else value
        try:
            sizes_of("", "", known, ndim, least)
        except (ConfigError, TypeError, ValueError):
            return False
        return True

    return holds, f"an integer >= {least}, or {ndim} of them"


def _window_function(name: str, ndim: int, f: Callable[..., Any]) -> Callable[..., Any]:
    """The function of windows with `kernel_size`, of a batch or of one example."""

    def call(x: Any, kernel_size: Sizes, **settings: Any) -> Any:
        return with_batch_axis(name, lambda x: f(x, kernel_size, **settings), x, ndim)

    return call


def _powers(name: str, ndim: int) -> Callable[..., Any]:
    def call(x: Any, norm_type: float, kernel_size: Sizes, **settings: Any) -> Any:
        return with_batch_axis(
            name, lambda x: functional.lp_pool(x, norm_type, kernel_size, **settings), x, ndim
        )

    return call


def _grid_function(name: str, ndim: int, f: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a grid, of which None keeps an axis's own size."""

    def call(x: Any, output_size: int | Sequence[int | None] | None, **settings: Any) -> Any:
        wanted = (
            [output_size] * ndim
            if output_size is None or isinstance(output_size, int)
            else output_size
        )
        kept = [m if w is None else w for w, m in zip(wanted, x.shape[-ndim:], strict=True)]
        return with_batch_axis(name, lambda x: f(x, kept, **settings), x, ndim)

    return call


_CEIL = {"ceil_mode": False}
_KINDS = {"padding": Sizes, "dilation": Sizes}
_MAX = {"stride": None, "padding": 0, "dilation": 1, "return_indices": False, **_CEIL}
_MEAN = {"stride": None, "padding": 0, **_CEIL, "count_include_pad": True}


def _rows(n: int) -> dict[str, Row]:
    """The pools of n axes."""
    size, out = ", ".join("DHW"[3 - n :]), ", ".join("PQR"[:n])
    said = f"(*b, C, {size}) -> (*b, C, {out})"
    checks = {"kernel_size": _sizes(n), "stride": _sizes(n, optional=True)}
    grid = {"output_size": _sizes(n, whole=True)}
    divisor: dict[str, Any] = {} if n == 1 else {"divisor_override": None}
    largest, mean = getattr(functional, f"max_pool{n}d"), getattr(functional, f"avg_pool{n}d")
    see = f"`nn.functional.{{}}_pool{n}d`. The stride is the kernel's size unless given."
    return {
        f"MaxPool{n}d": Row(
            _window_function(f"MaxPool{n}d", n, largest), {"kernel_size": ..., **_MAX}, shapes=said,
            doc=f"The maximum of each window, {see.format('max')}", checks=checks, kinds=_KINDS,
        ),
        f"AvgPool{n}d": Row(
            _window_function(f"AvgPool{n}d", n, mean), {"kernel_size": ..., **_MEAN, **divisor},
            doc=f"The mean of each window, {see.format('avg')}", checks=checks, shapes=said,
            kinds=_KINDS,
        ),
        f"LPPool{n}d": Row(
            _powers(f"LPPool{n}d", n),
            {"norm_type": ..., "kernel_size": ..., "stride": None, **_CEIL}, checks=checks,
            doc="The root of the sum of powers of each window, `nn.functional.lp_pool`.",
            shapes=said,
        ),
        f"AdaptiveAvgPool{n}d": Row(
            _grid_function(f"AdaptiveAvgPool{n}d", n, functional.adaptive_avg_pool),
            {"output_size": ...}, checks=grid, shapes=said,
            doc="The means of a grid of `output_size` cells; None keeps an axis's own.",
        ),
        f"AdaptiveMaxPool{n}d": Row(
            _grid_function(f"AdaptiveMaxPool{n}d", n, functional.adaptive_max_pool),
            {"output_size": ..., "return_indices": False}, checks=grid, shapes=said,
            doc="The maxima of a grid of `output_size` cells; None keeps an axis's own.",
        ),
    }  # fmt: skip


ROWS: dict[str, Row] = {name: row for n in (1, 2, 3) for name, row in _rows(n).items()}
CLASSES: dict[str, type[Made]] = {
    name: class_of_row(name, "chainrule.nn", r) for name, r in ROWS.items()
}


class _MaxUnpool(Module):
    """Zeros with elements where maxima were found: `chainrule.nn.functional.max_unpool`."""

    ndim: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        name = type(self).__name__
        sizes_of(name, "kernel_size", kernel_size, self.ndim)
        if stride is not None:
            sizes_of(name, "stride", stride, self.ndim)
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def _unpool(self, x: Any, indices: Any, output_size: Sequence[int] | None) -> Tensor:
        if x.ndim == self.ndim + 1:
            return self._unpool(x[None], indices[None], output_size)[0]
        return functional.max_unpool(
            x, indices, self.kernel_size, stride=self.stride, padding=self.padding,
            output_size=output_size,
        )  # fmt: skip


@final
class MaxUnpool1d(_MaxUnpool):
    """The way back from `MaxPool1d` with `return_indices`; elsewhere are zeros."""

    ndim: ClassVar[int] = 1

    def forward(self, x: Any, indices: Any, output_size: Sequence[int] | None = None) -> Tensor:
        """Shapes: (*b, C, P), (*b, C, P) -> (*b, C, W)."""
        return self._unpool(x, indices, output_size)


@final
class MaxUnpool2d(_MaxUnpool):
    """The way back from `MaxPool2d` with `return_indices`; elsewhere are zeros."""

    ndim: ClassVar[int] = 2

    def forward(self, x: Any, indices: Any, output_size: Sequence[int] | None = None) -> Tensor:
        """Shapes: (*b, C, P, Q), (*b, C, P, Q) -> (*b, C, H, W)."""
        return self._unpool(x, indices, output_size)


@final
class MaxUnpool3d(_MaxUnpool):
    """The way back from `MaxPool3d` with `return_indices`; elsewhere are zeros."""

    ndim: ClassVar[int] = 3

    def forward(self, x: Any, indices: Any, output_size: Sequence[int] | None = None) -> Tensor:
        """Shapes: (*b, C, P, Q, R), (*b, C, P, Q, R) -> (*b, C, D, H, W)."""
        return self._unpool(x, indices, output_size)
