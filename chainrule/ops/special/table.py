"""Special functions: a second table of elementwise ops, on the values that SciPy computes.

Formulas: NIST Digital Library of Mathematical Functions (dlmf.nist.gov), chapters 5 (gamma) and 7
(error function). Bessel functions stand in `bessel.py`, incomplete gamma functions in
`incomplete.py`.
"""

# The rows' lambdas have no annotations: that is the table's form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.dtypes import INEXACT, finfo, float64, int64, rounded_once
from chainrule.errors import ConfigError
from chainrule.ops import elementwise as ew
from chainrule.ops.complex import complex, imag, real
from chainrule.ops.elementwise import SQRT_2, SQRT_2_PI, exp2, log, log1p, square
from chainrule.ops.families import elementwise as op
from chainrule.ops.indexing.selection import where
from chainrule.ops.rows import wide
from chainrule.ops.special.bessel import spherical_jn
from chainrule.ops.values import elementary as values
from chainrule.ops.values import normal as normal_values
from chainrule.ops.values import quantiles
from chainrule.ops.values.plain import real_only as picked
from chainrule.ops.values.special_functions import ordered, scipy_value

SQRT_PI = math.sqrt(math.pi)


def _both_zero(a: Any, b: Any) -> Any:
    """1 where a and b are 0: there xlogy is 0 whatever b does, and has the derivatives 0."""
    return (a == 0) * (b == 0)


# fmt: off
rsqrt    = op(rounded_once(lambda x: 1 / np.sqrt(x)), wide(lambda x: -0.5 * rsqrt(x) / x), name="rsqrt", singular=True)
fmod     = op(np.fmod, lambda: 1, lambda a, b: -ew.trunc(a / b))
fmax     = op(picked(np.fmax), lambda a, b: (a > b) + 0.5 * (a == b) + ew.isnan(b), lambda a, b: (b > a) + 0.5 * (a == b) + ew.isnan(a))
fmin     = op(picked(np.fmin), lambda a, b: (a < b) + 0.5 * (a == b) + ew.isnan(b), lambda a, b: (b < a) + 0.5 * (a == b) + ew.isnan(a))

lgamma   = op(scipy_value("gammaln", "lgamma"), lambda x: digamma(x), name="lgamma", singular=True)
digamma  = op(scipy_value("psi", "digamma"), lambda x: polygamma(1, x), name="digamma", singular=True)

erfinv   = op(scipy_value("erfinv"), wide(lambda x: erfinv_slope(x)), name="erfinv", singular=True)
erfcx    = op(scipy_value("erfcx"), lambda y, x: 2 * x * y - 2 / SQRT_PI, name="erfcx")
ndtr     = op(normal_values.ndtr, lambda x: ew.exp_product(-0.5 * x, x) / math.sqrt(2 * math.pi), name="ndtr")
ndtri    = op(scipy_value("ndtri"), wide(lambda x: ndtri_slope(x)), name="ndtri", singular=True)
erfinv_slope = op(quantiles.erfinv_slope, wide(lambda x: erfinv_bend(x)), name="erfinv_slope", singular=True)
erfinv_bend  = op(quantiles.erfinv_bend, wide(lambda x: _bend_slope(erfinv_slope(x), 2 * square(erfinv(x)))), name="erfinv_bend", singular=True)
ndtri_slope  = op(quantiles.ndtri_slope, wide(lambda x: ndtri_bend(x)), name="ndtri_slope", singular=True)
ndtri_bend   = op(quantiles.ndtri_bend, wide(lambda x: 0.5 * _bend_slope(ndtri_slope(x), square(ndtri(x)))), name="ndtri_bend", singular=True)
log_ndtr = op(scipy_value("log_ndtr"), lambda x: SQRT_2_PI / erfcx(-x / SQRT_2), name="log_ndtr")

logit    = op(scipy_value("logit"), wide(lambda x: logit_slope(x)), name="logit", singular=True)
logit_slope = op(rounded_once(lambda x: 1 / x / (1 - x)), wide(lambda x: square(logit_slope(x)) * (2 * (x - 0.5))), name="logit_slope", singular=True)
entr     = op(scipy_value("entr"), lambda x: entr_slope(x), name="entr", singular=True)
entr_slope = op(values.entr_slope, lambda x: -1 / x, name="entr_slope", singular=True)
xlogy    = op(scipy_value("xlogy"), lambda a, b: log(b + _both_zero(a, b)), lambda a, b: a / (b + _both_zero(a, b)), name="xlogy", singular=True)
xlog1py  = op(scipy_value("xlog1py"), lambda a, b: log1p(b + _both_zero(a, 1 + b)), wide(lambda a, b: a / (1 + b + _both_zero(a, 1 + b))), name="xlog1py", singular=True)

# of an order n that counts as the nearest whole number: a step, whose derivative is 0
polygamma    = op(ordered("polygamma"), lambda: 0, lambda a, b: polygamma(ew.round(a) + 1, b), name="polygamma", singular=True)
# fmt: on


def _bend_slope(slope: Any, square: Any) -> Any:
    """2 s^3 (1 + 2 t): the derivative of 2 y s^2, where y' = s and t = 2 y^2."""
    return 2 * slope * slope * slope * (1 + 2 * square)


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), 1 at 0, any shape; every derivative is right at 0 as well. DLMF 10.49.3.

    Shapes: (*s) -> (*s).

    >>> import numpy as np
    >>> cr.sinc(np.array([0.0, 0.5, 1.0])).round(4).tolist()
    [1.0, 0.6366, 0.0]
    """
    return spherical_jn(0, x * math.pi)


_MOST_TERMS = 10_000
"""Terms of a sum that is written out."""


def multigammaln(x: Any, p: int) -> Any:
    """Logarithm of the multivariate gamma function of dimension p, for x > (p - 1) / 2, any shape.

    Shapes: (*s) -> (*s).
    DLMF 35.3.4: p (p - 1) / 4 log(pi) + the sum of lgamma(x - i / 2) over i < p.

    >>> cr.multigammaln(cr.tensor([3.0]), 2)
    tensor([1.550195], dtype=float32)
    """
    if not 1 <= p <= _MOST_TERMS:
        raise ConfigError(
            f"multigammaln: the dimension p is a whole number from 1 to {_MOST_TERMS}, not {p}"
        )
    terms = [lgamma(x - 0.5 * i) for i in range(p)]
    return sum(terms[1:], terms[0]) + p * (p - 1) / 4 * math.log(math.pi)


def logaddexp2(a: Any, b: Any) -> Any:
    """log2(2**a + 2**b) without overflow; shapes broadcast.

    Shapes: (...), (...) -> (...).

    >>> cr.logaddexp2(cr.tensor([3.0]), cr.tensor([3.0]))
    tensor([4.], dtype=float32)
    """
    return ew.logaddexp(a * ew.LN_2, b * ew.LN_2) / ew.LN_2


def ldexp(a: Any, b: Any) -> Any:
    """a times 2 to the power of b; shapes broadcast.

    Shapes: (...), (...) -> (...).
    Integers b do not change the dtype of a, as in NumPy and PyTorch.

    >>> cr.ldexp(cr.tensor([1.5]), cr.tensor([3]))
    tensor([12.], dtype=float32)
    """
    y = a * exp2(b)
    whole = getattr(b, "dtype", float64).kind in "iub"
    return y.astype(a.dtype) if whole and getattr(a, "dtype", int64).kind in INEXACT else y


def frac(x: Any) -> Any:
    """The part of `x` behind the point, with the sign of `x`; any shape.

    Shapes: (*s) -> (*s).

    >>> cr.frac(cr.tensor([1.5, -1.5]))
    tensor([ 0.5, -0.5], dtype=float32)
    """
    return x - ew.trunc(x)


def deg2rad(x: Any) -> Any:
    """Degrees as radians; any shape.

    Shapes: (*s) -> (*s).

    >>> cr.deg2rad(cr.tensor([180.0]))
    tensor([3.1415927], dtype=float32)
    """
    return x * (math.pi / 180)


def rad2deg(x: Any) -> Any:
    """Radians as degrees; any shape.

    Shapes: (*s) -> (*s).

    >>> cr.rad2deg(cr.tensor([cr.pi]))
    tensor([180.], dtype=float32)
    """
    return x * (180 / math.pi)


def nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """`x` with NaN replaced, and infinities by the given numbers or the dtype's largest.

    Shapes: (*s) -> (*s).
    Any shape. What is replaced has gradient 0.

    >>> cr.nan_to_num(cr.tensor([1.0, float("nan")]), nan=0.0)
    tensor([1., 0.], dtype=float32)
    """
    if x.dtype.kind == "c":  # each part by itself
        parts = [nan_to_num(part, nan, posinf, neginf) for part in (real(x), imag(x))]
        return complex(*parts)
    most = finfo(x.dtype).max
    x = where(ew.isnan(x), nan, x)
    x = where(x == math.inf, most if posinf is None else posinf, x)
    return where(x == -math.inf, -most if neginf is None else neginf, x)


def lerp(a: Any, b: Any, weight: Any) -> Any:
    """a + weight (b - a), exact at weight 0 and 1; shapes broadcast.

    Shapes: (...), (...), (...) -> (...).

    >>> cr.lerp(cr.tensor([0.0]), cr.tensor([10.0]), 0.25)
    tensor([2.5], dtype=float32)
    """
    gap = b - a
    return where(ew.abs(weight) < 0.5, a + weight * gap, b - gap * (1 - weight))
