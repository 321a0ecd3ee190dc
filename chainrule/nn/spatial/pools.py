"""Pooling as modules: maxima, means and norms of windows, or of a grid of given size, and back.

A table with PyTorch's names and defaults; each row is a class for one, two and three axes. An
example may come without the axis of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ConfigError
from chainrule.nn import functional
from chainrule.nn.base.function_modules import Check, FunctionModule, Row, class_of_row
from chainrule.nn.base.unbatched_examples import with_batch_axis
from chainrule.nn.spatial.sized_modules import SizedModule
from chainrule.ops.shapes.shaping import squeeze
from chainrule.ops.windows.windows import Sizes, sizes_of
from chainrule.random import Generator


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


def _of_batch(name: str, ndim: int, f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of x (N, C, *size) as one of a batch or of one example."""

    def call(x: Any, **settings: Any) -> Any:
        return with_batch_axis(name, lambda x: f(x, **settings), x, ndim)

    return call


_CEIL = {"ceil_mode": False}
_KINDS = {"padding": Sizes, "dilation": Sizes}
_MAX = {"stride": None, "padding": 0, "dilation": 1, "return_indices": False, **_CEIL}
_MEAN = {"stride": None, "padding": 0, **_CEIL, "count_include_pad": True}


def _function_of(n: int) -> Callable[[str], Callable[..., Any]]:
    """For a kind of pooling ("adaptive_max"): its function of n axes, also of one example."""

    def f(name: str) -> Callable[..., Any]:
        function = getattr(functional, f"{name}_pool{n}d")
        title = "".join([w.title() for w in name.split("_")]).replace("Lp", "LP")
        return _of_batch(f"{title}Pool{n}d", n, function)

    return f


def _rows(n: int) -> dict[str, Row]:
    """The pools of n axes."""
    size, out = ", ".join("DHW"[3 - n :]), ", ".join("PQR"[:n])
    said = f"(*b, C, {size}) -> (*b, C, {out})"
    checks = {"kernel_size": _sizes(n), "stride": _sizes(n, optional=True)}
    grid = {"output_size": _sizes(n, whole=True)}
    divisor: dict[str, Any] = {} if n == 1 else {"divisor_override": None}
    see = f"`nn.functional.{{}}_pool{n}d`. The stride is the kernel's size unless given."
    kernel, f = {"kernel_size": "kernel"}, _function_of(n)
    return {
        f"MaxPool{n}d": Row(
            f("max"), {"kernel_size": ..., **_MAX}, kernel,
            doc=f"The maximum of each window, {see.format('max')}", checks=checks, kinds=_KINDS,
            shapes=said,
        ),
        f"AvgPool{n}d": Row(
            f("avg"), {"kernel_size": ..., **_MEAN, **divisor}, kernel,
            doc=f"The mean of each window, {see.format('avg')}", checks=checks, shapes=said,
            kinds=_KINDS,
        ),
        f"LPPool{n}d": Row(
            f("lp"), {"norm_type": ..., "kernel_size": ..., "stride": None, **_CEIL},
            {**kernel, "norm_type": "ord"}, checks=checks, shapes=said,
            doc="The root of the sum of powers of each window, `nn.functional.lp_pool`.",
        ),
        f"AdaptiveAvgPool{n}d": Row(
            f("adaptive_avg"), {"output_size": ...}, checks=grid, shapes=said,
            doc="The means of a grid of `output_size` cells; None keeps an axis's own.",
        ),
        f"AdaptiveMaxPool{n}d": Row(
            f("adaptive_max"), {"output_size": ..., "return_indices": False}, checks=grid,
            doc="The maxima of a grid of `output_size` cells; None keeps an axis's own.",
            shapes=said,
        ),
    }  # fmt: skip


ROWS: dict[str, Row] = {name: row for n in (1, 2, 3) for name, row in _rows(n).items()}
CLASSES: dict[str, type[FunctionModule]] = {
    name: class_of_row(name, "chainrule.nn", r) for name, r in ROWS.items()
}


class _MaxUnpool(SizedModule):
    """Zeros with elements where maxima were found: `chainrule.nn.functional.max_unpool`."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        name = type(self).__name__
        sizes_of(name, "kernel_size", kernel_size, self.ndim)
        if stride is not None:
            sizes_of(name, "stride", stride, self.ndim)
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x: Any, indices: Any, output_size: Sequence[int] | None = None) -> Tensor:
        """Shapes: (*b, C, {out}), (*b, C, {out}) -> (*b, C, {size})."""
        if x.ndim == self.ndim + 1:
            return squeeze(self.forward(x[None], indices[None], output_size), 0)
        f = getattr(functional, f"max_unpool{self.ndim}d")
        settings = {"stride": self.stride, "padding": self.padding, "output_size": output_size}
        return f(x, indices, self.kernel_size, **settings)


@final
class MaxUnpool1d(_MaxUnpool, ndim=1):
    """The way back from `MaxPool1d` with `return_indices`; elsewhere are zeros.

    >>> y, indices = nn.MaxPool1d(2, return_indices=True)(cr.tensor([[[1.0, 3.0, 2.0, 5.0]]]))
    >>> nn.MaxUnpool1d(2)(y, indices)
    tensor([[[0., 3., 0., 5.]]], dtype=float32)
    """


@final
class MaxUnpool2d(_MaxUnpool, ndim=2):
    """The way back from `MaxPool2d` with `return_indices`; elsewhere are zeros.

    >>> y, indices = nn.MaxPool2d(2, return_indices=True)(cr.ones((1, 1, 4, 6)))
    >>> nn.MaxUnpool2d(2)(y, indices).shape
    (1, 1, 4, 6)
    """


@final
class MaxUnpool3d(_MaxUnpool, ndim=3):
    """The way back from `MaxPool3d` with `return_indices`; elsewhere are zeros.

    >>> y, indices = nn.MaxPool3d(2, return_indices=True)(cr.ones((1, 1, 2, 4, 6)))
    >>> nn.MaxUnpool3d(2)(y, indices).shape
    (1, 1, 2, 4, 6)
    """


class _FractionalMaxPool(SizedModule):
    """The maxima of windows at random places: see `chainrule.nn.functional`.

    There are `output_size` windows, or `output_ratio` times the size. `_random_samples` decide
    where they stand in each call; without them they are drawn, in training and in use.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Any = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        sizes_of(name, "kernel_size", kernel_size, self.ndim)
        if (output_size is None) == (output_ratio is None):
            raise ConfigError(f"{name}: give one of output_size and output_ratio")
        self.kernel_size, self.return_indices = kernel_size, return_indices
        self.output_size, self.output_ratio = output_size, output_ratio
        self._samples = None if _random_samples is None else asarray(_random_samples)
        self._generator = generator

    def forward(self, x: Any) -> Any:
        """Shapes: (*b, C, {size}) -> (*b, C, {out})."""
        name, f = type(self).__name__, getattr(functional, f"fractional_max_pool{self.ndim}d")
        settings = {
            "output_size": self.output_size, "output_ratio": self.output_ratio,
            "return_indices": self.return_indices, "samples": self._samples,
            "generator": self._generator,
        }  # fmt: skip
        return with_batch_axis(name, lambda x: f(x, self.kernel_size, **settings), x, self.ndim)


@final
class FractionalMaxPool2d(_FractionalMaxPool, ndim=2):
    """Maxima of windows at random places, `nn.functional.fractional_max_pool2d`.

    >>> nn.FractionalMaxPool2d(2, output_size=3)(cr.ones((1, 2, 6, 8))).shape
    (1, 2, 3, 3)
    """


@final
class FractionalMaxPool3d(_FractionalMaxPool, ndim=3):
    """Maxima of windows at random places, `nn.functional.fractional_max_pool3d`.

    >>> nn.FractionalMaxPool3d(2, output_size=3)(cr.ones((1, 2, 6, 6, 8))).shape
    (1, 2, 3, 3, 3)
    """
