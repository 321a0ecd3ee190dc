"""The density of the beta distribution, the derivative of the incomplete beta functions.

x^(a - 1) (1 - x)^(b - 1) / B(a, b) is the exponential of a sum of large terms that cancel. Written
around its maximum it does not: Loader 2000, "Fast and accurate computation of binomial
probabilities", as the probability of a successes among a + b.
"""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.dtypes import check_real, float64, rounded_once
from chainrule.ops.values.gamma import distance, left_by_stirling


@rounded_once
def beta_density(a: Any, b: Any, x: Any) -> Any:
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b) (computed in float64); NaN unless a > 0, b > 0 and
    0 <= x <= 1."""
    check_real("beta_density", a, b, x)
    dtype = np.result_type(a, b, x)
    a, b, x = [np.asarray(v, float64) for v in (a, b, x)]
    with np.errstate(all="ignore"):
        n, z = a + b, 1 - x
        left = left_by_stirling(n) - left_by_stirling(a) - left_by_stirling(b)
        far = distance(a, n * x) + distance(b, n * z)
        y = np.exp(left - far) * np.sqrt(a / n * b / (2 * math.pi)) / (x * z)
        y = np.where(x == 0, _at_end(a, b), y)
        y = np.where(x == 1, _at_end(b, a), y)
        y = np.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), y, math.nan)
    return y.astype(dtype if dtype.kind == "f" else float64)


def _at_end(a: Any, b: Any) -> Any:
    """The density where the variable whose power is a - 1 is 0."""
    return np.where(a < 1, math.inf, np.where(a == 1, b, 0.0))
