"""Modules that draw random numbers in training, beside `Dropout`. PyTorch's names and defaults."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn import functional
from chainrule.nn.base.module import Module
from chainrule.random import Generator


class _ChannelDropout(Module):
    """In training, whole channels are 0 with probability p, the others divided by 1 - p."""

    axes: int

    def __init__(self, p: float = 0.5, *, generator: Any = None) -> None:
        self.p = _probability(type(self).__name__, p)
        self._generator = generator

    def _forward(self, x: Any) -> Tensor:
        if x.ndim not in (self.axes + 1, self.axes + 2):
            raise ShapeError(f"{type(self).__name__}: x is (N, C, *size), not {tuple(x.shape)}")
        if not self.training or self.p == 0:
            return asarray(x)
        shape = (*x.shape[: x.ndim - self.axes], *[1] * self.axes)
        ones = asarray(np.ones(shape, x.dtype))
        return x * functional.dropout(ones, self.p, generator=self._generator)


@final
class Dropout1d(_ChannelDropout):
    """`Dropout` of whole channels, whose last 1 axis go together."""

    axes = 1

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        return self._forward(x)


@final
class Dropout2d(_ChannelDropout):
    """`Dropout` of whole channels, whose last 2 axes go together."""

    axes = 2

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        return self._forward(x)


@final
class Dropout3d(_ChannelDropout):
    """`Dropout` of whole channels, whose last 3 axes go together."""

    axes = 3

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        return self._forward(x)


@final
class AlphaDropout(Module):
    """Dropout after `SELU`: mean 0 and variance 1 stay. See `nn.functional.alpha_dropout`."""

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        self.p = _probability("AlphaDropout", p)
        self._generator = generator

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        return functional.alpha_dropout(
            x, self.p, training=self.training, generator=self._generator
        )


@final
class FeatureAlphaDropout(Module):
    """`AlphaDropout` of whole channels."""

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        self.p = _probability("FeatureAlphaDropout", p)
        self._generator = generator

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        return functional.feature_alpha_dropout(
            x, self.p, training=self.training, generator=self._generator
        )


@final
class RReLU(Module):
    """x where positive, elsewhere times a slope: random in training, else its mean."""

    def __init__(
        self, lower: float = 1 / 8, upper: float = 1 / 3, *, generator: Generator | None = None
    ) -> None:
        if not 0 <= lower <= upper:
            raise ConfigError(f"RReLU: slopes are 0 <= lower <= upper, not {lower} and {upper}")
        self.lower, self.upper = lower, upper
        self._generator = generator

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        return functional.rrelu(
            x, self.lower, self.upper, training=self.training, generator=self._generator
        )


def _probability(name: str, p: float) -> float:
    if not 0 <= p <= 1:
        raise ConfigError(f"{name}: p is a probability, not {p}")
    return p
