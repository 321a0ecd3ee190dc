"""Functions that draw random numbers, beside `dropout`. PyTorch's names and defaults."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from chainrule.errors import ConfigError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.selection import where
from chainrule.ops.networks.composite import drop_together, softmax
from chainrule.ops.reductions.reduction import argmax
from chainrule.ops.shapes.shaping import astype
from chainrule.ops.windows.dimensions import by_dimension
from chainrule.random import Generator, default_generator

_SELU_FLOOR = -1.7580993408473766
"""What `selu` tends to far on the left: minus its scale times its alpha."""


def alpha_dropout(
    x: Any, p: float = 0.5, *, training: bool = False, generator: Generator | None = None
) -> Any:
    """Dropout for `selu`: mean 0 and variance 1 stay so. The identity if not `training`.

    Shapes: (*s) -> (*s).
    Elements are set, with probability p, to what `selu` tends to on the left; then all are scaled
    and shifted. Klambauer et al. 2017, arXiv:1706.02515, section 3.

    >>> nn.functional.alpha_dropout(cr.ones(100), 0.2, generator=cr.Generator(0)).shape
    (100,)
    """
    return _alpha_dropout("alpha_dropout", x, tuple(x.shape), p, training, generator)


def feature_alpha_dropout(
    x: Any, p: float = 0.5, *, training: bool = False, generator: Generator | None = None
) -> Any:
    """`alpha_dropout` of whole channels of x (N, C, ...).

    Shapes: (*s) -> (*s).

    >>> nn.functional.feature_alpha_dropout(cr.ones((2, 3, 4)), generator=cr.Generator(0)).shape
    (2, 3, 4)
    """
    if x.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout: x is (N, C, ...), not {tuple(x.shape)}")
    shape = (*x.shape[:2], *[1] * (x.ndim - 2))
    return _alpha_dropout("feature_alpha_dropout", x, shape, p, training, generator)


def _alpha_dropout(
    what: str, x: Any, shape: Any, p: float, training: bool, generator: Generator | None
) -> Any:
    if not 0 <= p <= 1:
        raise ConfigError(f"{what}: p is a probability, not {p}")
    if not training or p == 0:
        return x
    if p == 1:
        return where(np.zeros(shape, bool), x, 0)
    kept = (generator or default_generator).bernoulli(1 - p, shape)
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SELU_FLOOR**2))
    return where(kept, x, _SELU_FLOOR) * scale - scale * p * _SELU_FLOOR


def _dropout_of(ndim: int):
    """`dropout` of whole channels of `ndim` axes."""

    def of_axes(
        x: Any, p: float = 0.5, *, training: bool = True, generator: Generator | None = None
    ) -> Any:
        """`dropout` of whole channels of x (N, C, {size}), or of (C, {size}).

        Shapes: (*s) -> (*s).
        Tompson et al. 2015, arXiv:1411.4280, section 3.2.

        >>> nn.functional.{name}(cr.ones((2, 3, {4s})), 0.5, generator=cr.Generator(0)).shape
        (2, 3, {4s})
        """
        if x.ndim not in (ndim + 1, ndim + 2):
            size = ", ".join("DHW"[3 - ndim :])
            raise ShapeError(
                f"dropout{ndim}d: x is (N, C, {size}) or (C, {size}), not {tuple(x.shape)}"
            )
        shape = (*x.shape[: x.ndim - ndim], *[1] * ndim)
        return drop_together(x, shape, p, training, generator)

    return of_axes


dropout1d, dropout2d, dropout3d = by_dimension("dropout", _dropout_of)


def rrelu(
    x: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    *,
    training: bool = False,
    generator: Generator | None = None,
) -> Any:
    """x where positive, elsewhere times a slope between `lower` and `upper`.

    Shapes: (*s) -> (*s).
    Each element has a random slope in `training`, and their mean otherwise. Xu et al. 2015,
    arXiv:1505.00853.

    >>> nn.functional.rrelu(cr.tensor([-4.0, 3.0]), training=False)
    tensor([-0.9166667,  3.       ], dtype=float32)
    """
    if not 0 <= lower <= upper:
        raise ConfigError(f"rrelu: slopes are 0 <= lower <= upper, not {lower} and {upper}")
    slope: Any = (lower + upper) / 2
    if training:
        drawn = (generator or default_generator).uniform(tuple(x.shape), low=lower, high=upper)
        slope = astype(drawn, x.dtype)
    return where(x > 0, x, x * slope)


def gumbel_softmax(
    logits: Any,
    tau: float = 1,
    hard: bool = False,
    *,
    axis: int = -1,
    generator: Generator | None = None,
) -> Any:
    """A random choice of a class along `axis` that can be differentiated: softmax of noisy logits.

    Shapes: (*s) -> (*s).
    Divided by `tau`: the smaller, the nearer to one class. With `hard` the value is exactly one
    class, and the gradient that of the soft choice. Jang et al. 2016, arXiv:1611.01144, section 2.

    >>> nn.functional.gumbel_softmax(cr.zeros(3), hard=True, generator=cr.Generator(0))
    tensor([1., 0., 0.], dtype=float32)
    """
    if not tau > 0:
        raise ConfigError(f"gumbel_softmax: tau is positive, not {tau}")
    drawn = (generator or default_generator).uniform(tuple(logits.shape), low=1e-20)
    noise = astype(-ew.log(-ew.log(drawn)), logits.dtype)
    soft = softmax((logits + noise) / tau, axis=axis)
    if not hard:
        return soft
    places = cast(Any, np.arange(soft.shape[axis]))
    places = places.reshape(-1, *[1] * ((soft.ndim - 1 - axis) % soft.ndim))
    chosen = astype(argmax(soft, axis=axis, keepdims=True) == places, soft.dtype)
    return chosen - _detach(soft) + soft


def _detach(x: Any) -> Any:
    """`x` without its derivative."""
    return x.detach() if hasattr(x, "detach") else x
