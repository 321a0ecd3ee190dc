"""The smooth ops in mpmath: one row each, what it is and where it is sampled."""

# ruff: noqa: E501

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

from tests.ops.special import exact as e


def powers(rng: Any, count: int, top: float) -> tuple[Any, Any]:
    """Bases of every size, and exponents with which the power is a number."""
    a = np.exp(rng.uniform(-0.3 * top, 0.3 * top, count))
    a = np.where(rng.random(count) < 0.3, rng.uniform(0.5, 2, count), a)
    most = 0.7 * top / np.maximum(np.abs(np.log(a)), 0.05)
    b = rng.uniform(-1, 1, count) * most
    return a, np.where(
        np.abs(b - 2) * np.abs(np.log(a)) < most * np.abs(np.log(a)), b, 1 + b / most
    )


def exponents(rng: Any, count: int, top: float) -> tuple[Any, Any]:
    """Numbers whose exponentials differ by everything from a little to all that there is."""
    a = rng.uniform(-top, top, count)
    return a, a + rng.choice([-1, 1], count) * np.exp(rng.uniform(-7, math.log(top), count))


def answers(rng: Any, count: int, top: float) -> tuple[Any, Any]:
    """Logits of every size, and answers yes or no."""
    a = np.exp(rng.uniform(-7, math.log(top), count)) * rng.choice([-1, 1], count)
    return a, rng.choice([0.0, 1.0], count)


@dataclass(frozen=True)
class Row:
    """A function of exact numbers and where it is sampled.

    `low` and `high` bound every argument; `near` are points next to which there are samples;
    beyond `reach` an exponential in it is 0 or infinite. `pairs` makes
    samples of two arguments. Where a derivative crosses 0 between parts that cancel, errors are in
    units of the parts' size, `size(x)`, if that is larger;
    `mixed(a, b)` is that of the mixed derivative. How large they may be, `BOUNDS` says.
    """

    f: Callable[..., Any]
    low: float = -math.inf
    high: float = math.inf
    near: tuple[float, ...] = ()
    reach: float = 800.0
    size: Callable[..., Any] | None = None
    pairs: Callable[..., Any] | None = None
    mixed: Callable[..., Any] | None = None


def sigmoid(x: Any) -> Any:
    return 1 / (1 + e.exp(-x))


def softplus(x: Any) -> Any:
    return e.log1p(e.exp(x)) if e.plain(x) < 0 else x + e.log1p(e.exp(-x))


def _cubic(x: Any) -> Any:
    return (x + x * x * x * mp.mpf(0.044715)) * (2 * mp.sqrt(2 / mp.pi))


def _logistic(x: Any) -> Any:
    """The density of the logistic distribution: the size of the parts of gates' slopes."""
    e = mp.exp(-abs(x))
    return e / (1 + e) ** 2


def _gate_size(x: Any) -> Any:
    return _logistic(_cubic(x)) * (1 + x * x) ** 2


def _normal(x: Any) -> Any:
    return mp.exp(-x * x / 2) / 2


def _ndtr(x: Any) -> Any:
    return e.erfc(-x / mp.sqrt(2)) / 2


def _elu(x: Any, alpha: Any = 1) -> Any:
    return x if e.plain(x) > 0 else alpha * e.expm1(x)


SELU = (mp.mpf(1.6732632423543772848170429916717), mp.mpf(1.0507009873554804934193349852946))


def _pow(a: Any, b: Any) -> Any:
    return e.exp(b * e.log(a))


def _logaddexp(a: Any, b: Any) -> Any:
    d = b - a
    return a + softplus(d) if e.plain(d) < 0 else b + softplus(-d)


# fmt: off
ROWS: dict[str, Row] = {
    # arithmetic
    "add": Row(lambda a, b: a + b), "sub": Row(lambda a, b: a - b), "mul": Row(lambda a, b: a * b),
    "div": Row(lambda a, b: a / b), "pow": Row(_pow, low=0, pairs=powers, mixed=lambda a, b: mp.power(a, b - 1)),
    "neg": Row(lambda x: -x), "positive": Row(lambda x: x), "reciprocal": Row(e.reciprocal),
    "square": Row(lambda x: x * x),
    # roots, exponentials, logarithms
    "sqrt": Row(e.sqrt, low=0), "cbrt": Row(e.cbrt), "rsqrt": Row(lambda x: 1 / e.sqrt(x), low=0),
    "exp": Row(e.exp, reach=760), "exp2": Row(lambda x: e.exp(x * mp.log(2)), near=(128, 1024), reach=1080),
    "expm1": Row(e.expm1, reach=760), "log": Row(e.log, low=0, near=(1,)),
    "log2": Row(lambda x: e.log(x) / mp.log(2), low=0, near=(1,)),
    "log10": Row(lambda x: e.log(x) / mp.log(10), low=0, near=(1,)),
    "log1p": Row(e.log1p, low=-1, near=(-1,)), "logaddexp": Row(_logaddexp, pairs=exponents),
    # trigonometric and hyperbolic
    "sin": Row(e.sin), "cos": Row(e.cos), "tan": Row(e.tan),
    "asin": Row(e.asin, -1, 1, (-1, 1)),
    "acos": Row(lambda x: mp.pi / 2 - e.asin(x), -1, 1, (-1, 1)),
    "atan": Row(e.atan), "sinh": Row(e.sinh), "cosh": Row(e.cosh),
    "tanh": Row(e.tanh, reach=400), "asinh": Row(e.asinh),
    "acosh": Row(e.acosh, low=1, near=(1,)), "atanh": Row(e.atanh, -1, 1, (-1, 1)),
    "atan2": Row(e.atan2), "hypot": Row(lambda a, b: e.sqrt(a * a + b * b)),
    # deep learning
    "sigmoid": Row(sigmoid), "softplus": Row(softplus),
    "silu": Row(lambda x: x * sigmoid(x), size=_logistic),
    "mish": Row(lambda x: x * e.tanh(softplus(x)), size=_logistic),
    "softsign": Row(lambda x: x / (1 + e.size(x))), "tanhshrink": Row(lambda x: x - e.tanh(x)),
    "erf": Row(e.erf, reach=28), "erfc": Row(e.erfc, reach=28),
    "gelu_erf": Row(lambda x: x * _ndtr(x), reach=40, size=_normal),
    "gelu_gate": Row(lambda x: sigmoid(_cubic(x)), reach=23),
    "gelu_tanh": Row(lambda x: x * sigmoid(_cubic(x)), reach=23, size=_gate_size),
    "elu": Row(_elu), "celu": Row(_elu), "selu": Row(lambda x: _elu(x, SELU[0]) * SELU[1]),
    "logistic_loss": Row(lambda a, b: (1 - b) * softplus(a) + b * softplus(-a), pairs=answers),
    "logsigmoid": Row(lambda x: -softplus(-x)),
    # probabilities
    "ndtr": Row(_ndtr, reach=40), "logit": Row(lambda x: e.log(x / (1 - x)), 0, 1, (0.5, 1)),
    "entr": Row(lambda x: -x * e.log(x), low=0, near=(1,)),
    "xlogy": Row(lambda a, b: a * e.log(b), low=0), "xlog1py": Row(lambda a, b: a * e.log1p(b), low=0),
    "erfinv": Row(e.erfinv, -1, 1, (-1, 1)),
    "ndtri": Row(lambda p: e.erfinv(2 * p - 1) * mp.sqrt(2), 1e-16, 1, (0.5, 1), 0.5),
    # special functions
    "lgamma": Row(e.lgamma, low=0, near=(1, 2), reach=100),
    "digamma": Row(e.polygamma(0), low=0, near=(1.4616321449683623,), reach=100),
    "i0": Row(e.bessel_i(0), -700, 700, reach=700),
}
# fmt: on
"""By row of the op table, or by composite of elementwise ops."""

OTHERS: dict[str, str] = {
    **dict.fromkeys(
        ["sign", "floor", "ceil", "trunc", "round", "copysign", "nextafter", "relu", "abs",
         "maximum", "minimum", "at_least", "at_most", "fmax", "fmin", "fmod", "remainder",
         "floor_divide"],
        "a step or a kink: its partials are whole numbers",
    ),
    **dict.fromkeys(
        ["cbrt_slope", "one_minus_square", "cos_atan", "cos_angle", "per_square", "exp_product", "sigmoid_diff",
         "logistic_density", "sech_square", "sech", "gelu_erf_slope", "gelu_gate_slope",
         "gelu_gate_density", "gelu_gate_tanh", "log1p_slope", "atan_slope", "softsign_slope", "gelu_tanh_slope", "silu_slope", "mish_slope", "logit_slope",
         "entr_slope", "erfinv_slope", "erfinv_bend", "ndtri_slope", "ndtri_bend"],
        "a slope of another row, whose second derivative it is tested by",
    ),
    "i1": "SciPy's Bessel functions of very small numbers are 0, and its second derivative a sum of them",
    "exp_diff": "the exponential of a difference that is rounded: exact by definition",
    "strong_mul": "a product",
    **dict.fromkeys(
        ["erfcx", "log_ndtr", "i0e", "i1e", "iv", "ive", "polygamma", "spherical_jn"],
        "its second derivative, or its first, is a difference of values far out",
    ),
    **dict.fromkeys(
        ["j0", "j1", "jv", "y0", "y1", "yv", "k0", "k0e", "k1", "k1e", "kv", "kve", "airy_ai",
         "airy_ai_slope", "gammainc", "gammaincc", "gamma_density", "betainc", "betaincc",
         "beta_density", "zeta"],
        "its values are SciPy's: test_special_exact.py holds it to bounds of its size",
    ),
}  # fmt: skip
"""By row that has no bound: why."""
