"""The density of the gamma distribution, the derivative of the incomplete gamma functions.

x^(a - 1) e^-x / Gamma(a) is the exponential of a sum of large terms that cancel. Written around its
maximum it is e^-(n d(x / n) + s(n)) / sqrt(2 pi n), n = a - 1, which does not: Loader 2000, "Fast
and accurate computation of binomial probabilities". Here it is stated for n = a, times a / x.

Notation: `d(u)` u - 1 - log u; `s(a)` what Stirling's formula leaves of log Gamma(a + 1).
"""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.dtypes import check_real, float64, rounded_once
from chainrule.ops.values.special_functions import special_function

_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)
"""Of s(a) in odd powers of 1 / a: DLMF 5.11.1."""
_LARGE = 10.0
"""From here on the series above serves."""
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
_NEAR = 0.1
"""Where |u - 1| is less, d(u) is its series."""


def left_by_stirling(a: Any) -> Any:
    """s(a), a > 0, float64."""
    large = np.maximum(a, _LARGE)
    z = 1 / (large * large)
    y = np.zeros_like(large)
    for c in reversed(_STIRLING):
        y = y * z + c
    small = np.minimum(a, _LARGE)
    lgamma = special_function("gammaln", "lgamma")
    exact = lgamma(small + 1) - (small + 0.5) * np.log(small) + small - _HALF_LOG_2_PI
    return np.where(a >= _LARGE, y / large, exact)


def distance(a: Any, x: Any) -> Any:
    """a d(x / a). Near a by v = (x - a) / (x + a): log(x / a) = 2 atanh v, whose series begins with
    what x - a leaves."""
    v = (x - a) / (x + a)
    w = v * v
    y = np.zeros_like(v)
    for k in range(17, 1, -2):
        y = y * w + 1 / k
    near = (x - a) * v - 2 * a * v * w * y
    far = x - a - a * np.log(x / a)
    return np.where(np.abs(v) < _NEAR, near, far)


@rounded_once
def gamma_density(a: Any, x: Any) -> Any:
    """x^(a - 1) e^-x / Gamma(a) (computed in float64); NaN unless a > 0 and x >= 0."""
    check_real("gamma_density", a, x)
    dtype = np.result_type(a, x)
    a, x = np.asarray(a, float64), np.asarray(x, float64)
    with np.errstate(all="ignore"):
        large = np.maximum(a, _LARGE)
        far = np.exp(-distance(large, x) - left_by_stirling(large)) * np.sqrt(large) / x
        small = np.minimum(a, _LARGE)
        near = (
            np.power(x, small - 1) * np.exp(-x) / special_function("gamma", "gamma_density")(small)
        )
        y = np.where(a >= _LARGE, far / math.sqrt(2 * math.pi), near)
        y = np.where((a >= _LARGE) & (x == 0) | (x == math.inf), 0.0, y)
        y = np.where((a > 0) & (x >= 0), y, math.nan)
    return y.astype(dtype if dtype.kind == "f" else float64)
