"""Special functions: a second table of elementwise ops, on the values that SciPy computes.

Formulas: NIST Digital Library of Mathematical Functions (dlmf.nist.gov), chapters 5 (gamma), 7
(error function), 10 (Bessel).
"""

# The rows' lambdas have no annotations: that is the table's form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.dtypes import check_real, finfo, rounded_once
from chainrule.errors import ConfigError
from chainrule.ops import elementwise as ew
from chainrule.ops.complex import complex_, imag, real
from chainrule.ops.elementwise import SQRT_2, SQRT_2_PI, exp2, log, log1p, sign, square
from chainrule.ops.families import elementwise as op
from chainrule.ops.indexing.selection import where
from chainrule.ops.rows import wide
from chainrule.ops.values import bessel as bessel_values
from chainrule.ops.values import elementary as values
from chainrule.ops.values import normal as normal_values
from chainrule.ops.values import quantiles
from chainrule.ops.values.plain import ordered
from chainrule.ops.values.special_functions import special_function

SQRT_PI = math.sqrt(math.pi)


def _scipy(name: str, label: str = "") -> Callable[..., Any]:
    """SciPy's function of that name, or ours without SciPy, in the dtype of its arguments.

    There is none for float16 and bfloat16, and some have none for float32: those compute in a
    wider one. `label` is the row's name, where that is another one.
    """

    @rounded_once
    def fn(*xs: Any) -> Any:
        y = special_function(name, label or name)(*xs)
        dtype = np.result_type(*xs)
        return y.astype(dtype) if dtype.kind == "f" and y.dtype != dtype else y

    return fn


def _ordered(name: str) -> Callable[..., Any]:
    f = _scipy(name)

    def fn(n: Any, x: Any) -> Any:
        check_real(f"the order of {name}", n)
        return f(np.rint(n) if hasattr(n, "dtype") else float(np.rint(n)), x)

    return fn


def _both_zero(a: Any, b: Any) -> Any:
    """1 where a and b are 0: there xlogy is 0 whatever b does, and has the derivatives 0."""
    return (a == 0) * (b == 0)


# fmt: off
rsqrt    = op(rounded_once(lambda x: 1 / np.sqrt(x)), wide(lambda x: -0.5 * rsqrt(x) / x), name="rsqrt", singular=True)
fmod     = op(np.fmod, lambda: 1, lambda a, b: -ew.trunc(a / b))
fmax     = op(ordered(np.fmax), lambda a, b: (a > b) + 0.5 * (a == b) + ew.isnan(b), lambda a, b: (b > a) + 0.5 * (a == b) + ew.isnan(a))
fmin     = op(ordered(np.fmin), lambda a, b: (a < b) + 0.5 * (a == b) + ew.isnan(b), lambda a, b: (b < a) + 0.5 * (a == b) + ew.isnan(a))

lgamma   = op(_scipy("gammaln", "lgamma"), lambda x: digamma(x), name="lgamma", singular=True)
digamma  = op(_scipy("psi", "digamma"), lambda x: polygamma(1, x), name="digamma", singular=True)

erfinv   = op(_scipy("erfinv"), wide(lambda x: erfinv_slope(x)), name="erfinv", singular=True)
erfcx    = op(_scipy("erfcx"), lambda y, x: 2 * x * y - 2 / SQRT_PI, name="erfcx")
ndtr     = op(normal_values.ndtr, lambda x: ew.exp_product(-0.5 * x, x) / math.sqrt(2 * math.pi), name="ndtr")
ndtri    = op(_scipy("ndtri"), wide(lambda x: ndtri_slope(x)), name="ndtri", singular=True)
erfinv_slope = op(quantiles.erfinv_slope, wide(lambda x: erfinv_bend(x)), name="erfinv_slope", singular=True)
erfinv_bend  = op(quantiles.erfinv_bend, wide(lambda x: _bend_slope(erfinv_slope(x), 2 * square(erfinv(x)))), name="erfinv_bend", singular=True)
ndtri_slope  = op(quantiles.ndtri_slope, wide(lambda x: ndtri_bend(x)), name="ndtri_slope", singular=True)
ndtri_bend   = op(quantiles.ndtri_bend, wide(lambda x: 0.5 * _bend_slope(ndtri_slope(x), square(ndtri(x)))), name="ndtri_bend", singular=True)
log_ndtr = op(_scipy("log_ndtr"), lambda x: SQRT_2_PI / erfcx(-x / SQRT_2), name="log_ndtr")

logit    = op(_scipy("logit"), wide(lambda x: logit_slope(x)), name="logit", singular=True)
logit_slope = op(rounded_once(lambda x: 1 / x / (1 - x)), wide(lambda x: square(logit_slope(x)) * (2 * (x - 0.5))), name="logit_slope", singular=True)
entr     = op(_scipy("entr"), lambda x: entr_slope(x), name="entr", singular=True)
entr_slope = op(values.entr_slope, lambda x: -1 / x, name="entr_slope", singular=True)
xlogy    = op(_scipy("xlogy"), lambda a, b: log(b + _both_zero(a, b)), lambda a, b: a / (b + _both_zero(a, b)), name="xlogy", singular=True)
xlog1py  = op(_scipy("xlog1py"), lambda a, b: log1p(b + _both_zero(a, 1 + b)), wide(lambda a, b: a / (1 + b + _both_zero(a, 1 + b))), name="xlog1py", singular=True)

i0       = op(_scipy("i0"), lambda x: i1(x), name="i0")
i0e      = op(_scipy("i0e"), lambda x, y: i1e(x) - sign(x) * y, name="i0e")
i1       = op(bessel_values.i1, lambda x: 0.5 * i0(x) + 0.5 * iv(2, x), name="i1")
i1e      = op(_scipy("i1e"), lambda x, y: 0.5 * (i0e(x) + ive(2, x)) - sign(x) * y, name="i1e")

# of an order n that counts as the nearest whole number: a step, whose derivative is 0
polygamma    = op(_ordered("polygamma"), lambda: 0, lambda a, b: polygamma(ew.round(a) + 1, b), name="polygamma", singular=True)
iv           = op(_ordered("iv"), lambda: 0, lambda a, b: _between(iv, ew.round(a), b), name="iv")
ive          = op(_ordered("ive"), lambda: 0, lambda y, a, b: _between(ive, ew.round(a), b) - sign(b) * y, name="ive")
spherical_jn = op(_ordered("spherical_jn"), lambda: 0, lambda a, b: _spherical(ew.round(a), b), name="spherical_jn")
# fmt: on


def _bend_slope(slope: Any, square: Any) -> Any:
    """2 s^3 (1 + 2 t): the derivative of 2 y s^2, where y' = s and t = 2 y^2."""
    return 2 * slope * slope * slope * (1 + 2 * square)


def _between(kind: Any, n: Any, x: Any) -> Any:
    """DLMF 10.29.1: 2 I_n' = I_(n-1) + I_(n+1)."""
    return 0.5 * (kind(n - 1, x) + kind(n + 1, x))


def _spherical(n: Any, x: Any) -> Any:
    """DLMF 10.51.2: (2n + 1) j_n' = n j_(n-1) - (n + 1) j_(n+1), where n is whole."""
    below = n * spherical_jn(ew.at_least(n - 1, 0), x)
    return (below - (n + 1) * spherical_jn(n + 1, x)) / (2 * n + 1)


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), 1 at 0, any shape; every derivative is right at 0 as well. DLMF 10.49.3.

    Shapes: (*s) -> (*s).

    >>> import numpy as np
    >>> sinc(np.array([0.0, 0.5, 1.0])).round(4).tolist()
    [1.0, 0.6366, 0.0]
    """
    return spherical_jn(0, x * math.pi)


_MOST_TERMS = 10_000
"""Terms of a sum that is written out."""


def multigammaln(x: Any, p: int) -> Any:
    """Logarithm of the multivariate gamma function of dimension p, for x > (p - 1) / 2, any shape.

    Shapes: (*s) -> (*s).
    DLMF 35.3.4: p (p - 1) / 4 log(pi) + the sum of lgamma(x - i / 2) over i < p.
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
    """
    return ew.logaddexp(a * ew.LN_2, b * ew.LN_2) / ew.LN_2


def ldexp(a: Any, b: Any) -> Any:
    """a times 2 to the power of b; shapes broadcast.

    Shapes: (...), (...) -> (...).
    """
    return a * exp2(b)


def frac(x: Any) -> Any:
    """The part of `x` behind the point, with the sign of `x`; any shape.

    Shapes: (*s) -> (*s).
    """
    return x - ew.trunc(x)


def deg2rad(x: Any) -> Any:
    """Degrees as radians; any shape.

    Shapes: (*s) -> (*s).
    """
    return x * (math.pi / 180)


def rad2deg(x: Any) -> Any:
    """Radians as degrees; any shape.

    Shapes: (*s) -> (*s).
    """
    return x * (180 / math.pi)


def nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """`x` with NaN replaced, and infinities by the given numbers or the dtype's largest.

    Shapes: (*s) -> (*s).
    Any shape. What is replaced has gradient 0.
    """
    if x.dtype.kind == "c":  # each part by itself
        parts = [nan_to_num(part, nan, posinf, neginf) for part in (real(x), imag(x))]
        return complex_(*parts)
    most = finfo(x.dtype).max
    x = where(ew.isnan(x), nan, x)
    x = where(x == math.inf, most if posinf is None else posinf, x)
    return where(x == -math.inf, -most if neginf is None else neginf, x)


def lerp(a: Any, b: Any, weight: Any) -> Any:
    """a + weight (b - a), exact at weight 0 and 1; shapes broadcast.

    Shapes: (...), (...), (...) -> (...).
    """
    gap = b - a
    return where(ew.abs(weight) < 0.5, a + weight * gap, b - gap * (1 - weight))
