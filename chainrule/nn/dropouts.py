"""Modules that draw random numbers in training. PyTorch's names and defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ConfigError
from chainrule.nn import functional
from chainrule.nn.base.module import Module
from chainrule.random import Generator


class _Dropout(Module):
    """What all share: a probability, and where random numbers come from."""

    f: ClassVar[Callable[..., Any]]
    """The function that drops."""

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        if not 0 <= p <= 1:
            raise ConfigError(f"{type(self).__name__}: p is a probability, not {p}")
        self.p = p
        self._generator = generator

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        f = type(self).f
        return asarray(f(x, self.p, training=self.training, generator=self._generator))


@final
class Dropout(_Dropout):
    """In training, each element is 0 with probability p, else divided by 1 - p; in use, itself.

    >>> nn.Dropout(0.5, generator=cr.Generator(0))(cr.ones(4))
    tensor([0., 2., 2., 2.], dtype=float32)
    """

    f = functional.dropout


@final
class Dropout1d(_Dropout):
    """`Dropout` of whole channels, whose last 1 axis go together.

    >>> nn.Dropout1d(0.5)(cr.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    f = functional.dropout1d


@final
class Dropout2d(_Dropout):
    """`Dropout` of whole channels, whose last 2 axes go together.

    >>> nn.Dropout2d(0.5)(cr.ones((2, 3, 4, 5))).shape
    (2, 3, 4, 5)
    """

    f = functional.dropout2d


@final
class Dropout3d(_Dropout):
    """`Dropout` of whole channels, whose last 3 axes go together.

    >>> nn.Dropout3d(0.5)(cr.ones((2, 3, 4, 5, 6))).shape
    (2, 3, 4, 5, 6)
    """

    f = functional.dropout3d


@final
class AlphaDropout(_Dropout):
    """Dropout after `SELU`: mean 0 and variance 1 stay. See `nn.functional.alpha_dropout`.

    >>> nn.AlphaDropout(0.2)(cr.ones((2, 3))).shape
    (2, 3)
    """

    f = functional.alpha_dropout


@final
class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels.

    >>> nn.FeatureAlphaDropout(0.2)(cr.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    f = functional.feature_alpha_dropout


@final
class RReLU(Module):
    """x where positive, elsewhere times a slope: random in training, else its mean.

    >>> nn.RReLU().eval()(cr.tensor([-4.0, 2.0]))
    tensor([-0.9166667,  2.       ], dtype=float32)
    """

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
