"""Initial values for parameters. Each function gives the tensor new values and returns it.

Random numbers come from `generator`, or else from the default one (`chainrule.manual_seed`).

Notation: `fan_in`, `fan_out` the numbers of inputs and outputs of a weight (n_out, n_in, ...).
"""

from __future__ import annotations

import math

import numpy as np

from chainrule.engine.border import with_border as _with_border
from chainrule.engine.dtypes import float64
from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.names.numpy_names import initializer_advice as _initializer_advice
from chainrule.names.spellings import missing_name_getter as _missing_name_getter
from chainrule.ops.special.table import erfinv
from chainrule.random import Generator, default_generator

__all__ = [
    "calculate_gain",
    "constant_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "trunc_normal_",
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


def eye_(x: Tensor) -> Tensor:
    """Fill a matrix with ones on its diagonal and zeros elsewhere.

    >>> nn.init.eye_(cr.zeros((1, 2)))
    tensor([[1., 0.]], dtype=float32)
    """
    if x.ndim != 2:
        raise ShapeError(f"eye_ fills a matrix, not shape {x.shape}")
    x.data = variable(np.eye(*x.shape, dtype=x.dtype))
    return x


def trunc_normal_(
    x: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Fill `x` with normally distributed numbers from [a, b], by the inverse of their distribution.

    >>> nn.init.trunc_normal_(cr.zeros(2), std=0.1, generator=cr.Generator(0)).shape
    (2,)
    """
    low, high = [math.erf((bound - mean) / (std * math.sqrt(2))) for bound in (a, b)]
    if not low < high:
        raise ConfigError(f"trunc_normal_: no number of mean {mean}, std {std} is in [{a}, {b}]")
    g = generator or default_generator
    new = mean + std * math.sqrt(2) * erfinv(g.uniform(x.shape, low=low, high=high, dtype=float64))
    x.data = variable(np.clip(new.numpy(), a, b).astype(x.dtype))
    return x


def orthogonal_(x: Tensor, gain: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill a weight (n_out, n_in, ...), seen as a matrix of n_out rows, with orthonormal rows or
    columns, whichever are fewer, times `gain` (Saxe et al. 2013).

    >>> w = nn.init.orthogonal_(cr.zeros((2, 3)), generator=cr.Generator(0))
    >>> cr.allclose(w @ w.T, cr.eye(2), atol=1e-6)
    True
    """
    _fans(x)
    rows, columns = x.shape[0], math.prod(x.shape[1:])
    g = generator or default_generator
    drawn = g.normal((max(rows, columns), min(rows, columns)), dtype=float64).numpy()
    q, r = np.linalg.qr(drawn)
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)  # so that each q is as likely as any other
    x.data = variable((gain * (q if rows >= columns else q.T)).reshape(x.shape).astype(x.dtype))
    return x


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

    >>> nn.init.calculate_gain("tanh")
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
__getattr__ = _missing_name_getter(__name__, _initializer_advice)
