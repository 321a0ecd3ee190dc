"""Initial values for parameters. Each function gives the tensor new values and returns it.

Random numbers come from `generator`, or else from the default one (`chainrule.manual_seed`).

Notation: `fan_in`, `fan_out` the numbers of inputs and outputs of a weight (n_out, n_in, ...).
"""

from __future__ import annotations

import math

import numpy as np

from chainrule.engine.border import with_border as _with_border
from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.random import Generator, default_generator

__all__ = [
    "constant_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]


def normal_(
    x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill `x` with normally distributed numbers.

    >>> nn.init.normal_(cr.zeros(2), std=0.1, generator=cr.Generator(0))
    tensor([ 0.01257302, -0.01321049], dtype=float32)
    """
    g = generator or default_generator
    x.data = g.normal(x.shape, mean=mean, std=std, dtype=x.dtype)
    return x


def uniform_(
    x: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill `x` with numbers spread evenly over [a, b).

    >>> nn.init.uniform_(cr.zeros(2), -1.0, 1.0, generator=cr.Generator(0))
    tensor([ 0.27392337, -0.46042657], dtype=float32)
    """
    g = generator or default_generator
    x.data = g.uniform(x.shape, low=a, high=b, dtype=x.dtype)
    return x


def constant_(x: Tensor, value: float) -> Tensor:
    """Fill `x` with one number.

    >>> w = cr.zeros(2, dtype=cr.float32)
    >>> nn.init.constant_(w, 5.0)
    tensor([5., 5.], dtype=float32)
    """
    x.data = variable(np.full(x.shape, value, x.dtype))
    return x


def zeros_(x: Tensor) -> Tensor:
    """Fill `x` with zeros.

    >>> nn.init.zeros_(cr.ones(2))
    tensor([0., 0.], dtype=float32)
    """
    return constant_(x, 0.0)


def ones_(x: Tensor) -> Tensor:
    """Fill `x` with ones.

    >>> nn.init.ones_(cr.zeros(2))
    tensor([1., 1.], dtype=float32)
    """
    return constant_(x, 1.0)


def xavier_uniform_(x: Tensor, gain: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Uniform in +-gain sqrt(6 / (fan_in + fan_out)).

    Glorot & Bengio 2010, AISTATS, equation 16. `ShapeError` for fewer than 2 axes.

    >>> w = cr.zeros((3, 2))
    >>> nn.init.xavier_uniform_(w, generator=cr.Generator(0)).shape
    (3, 2)
    """
    bound = gain * math.sqrt(6 / sum(_fans(x)))
    return uniform_(x, -bound, bound, generator=generator)


def xavier_normal_(x: Tensor, gain: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Normal with deviation gain sqrt(2 / (fan_in + fan_out)).

    Glorot & Bengio 2010, AISTATS, equation 12. `ShapeError` for fewer than 2 axes.

    >>> w = cr.zeros((3, 2))
    >>> nn.init.xavier_normal_(w, generator=cr.Generator(0)).shape
    (3, 2)
    """
    return normal_(x, 0.0, gain * math.sqrt(2 / sum(_fans(x))), generator=generator)


def kaiming_uniform_(
    x: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Uniform in +-gain sqrt(3 / fan), with the gain of `nonlinearity` (`a`: leaky_relu's slope).

    He et al. 2015, arXiv:1502.01852, equation 10. `ShapeError` for fewer than 2 axes.

    >>> w = cr.zeros((3, 2))
    >>> nn.init.kaiming_uniform_(w, generator=cr.Generator(0)).shape
    (3, 2)
    """
    bound = math.sqrt(3) * _kaiming_std(x, a, mode, nonlinearity)
    return uniform_(x, -bound, bound, generator=generator)


def kaiming_normal_(
    x: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Normal with deviation gain / sqrt(fan), with the gain of `nonlinearity`.

    He et al. 2015, arXiv:1502.01852, equation 10. `ShapeError` for fewer than 2 axes.

    >>> w = cr.zeros((3, 2))
    >>> nn.init.kaiming_normal_(w, generator=cr.Generator(0)).shape
    (3, 2)
    """
    return normal_(x, 0.0, _kaiming_std(x, a, mode, nonlinearity), generator=generator)


def calculate_gain(nonlinearity: str, slope: float = 0.01) -> float:
    """By how much an activation shrinks what flows through it, as PyTorch's table has it.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    gains = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5 / 3,
        "relu": math.sqrt(2),
        "leaky_relu": math.sqrt(2 / (1 + slope * slope)),
    }
    if nonlinearity not in gains:
        raise ConfigError(f"nonlinearity is one of {', '.join(gains)}, not {nonlinearity!r}")
    return gains[nonlinearity]


def _kaiming_std(x: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan_in, fan_out = _fans(x)
    fans = {"fan_in": fan_in, "fan_out": fan_out}
    if mode not in fans:
        raise ConfigError(f"mode is 'fan_in' or 'fan_out', not {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans[mode])


def _fans(x: Tensor) -> tuple[int, int]:
    if x.ndim < 2:
        raise ShapeError(f"a fan needs a weight (n_out, n_in, ...), not shape {x.shape}")
    window = math.prod(x.shape[2:])
    return x.shape[1] * window, x.shape[0] * window


_with_border(globals())
