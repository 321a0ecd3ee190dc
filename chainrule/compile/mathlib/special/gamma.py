"""The logarithm of the gamma function, its derivative, and the derivatives of that (float64).

From 3 on Stirling's series with a minimax polynomial for its tail (DLMF 5.11.1, 5.11.2); to 3 a
polynomial times the zeros; near 0 by the recurrence; on the left by reflection (DLMF 5.5.3, 5.5.4),
for which the code jumps over that part if no lane needs it. Near the zeros on the left a result is
right to some units of the parts that cancel there.
"""

from __future__ import annotations

import math

from chainrule.compile.mathlib.evaluation import polynomial
from chainrule.compile.mathlib.logarithm import log_twofold, split
from chainrule.compile.mathlib.reals import Mask, Real
from chainrule.compile.mathlib.trigonometric import cos_near_0, sin_near_0, tan_near_0
from chainrule.compile.mathlib.twofold import Two, constant, exactly, pick, quick_total, total
from chainrule.ops import coefficients as c
from chainrule.ops import special_coefficients as s

LGAMMA_MIDDLE, DIGAMMA_MIDDLE = 1.46875, 1.75
LGAMMA_LARGEST = 2.5599833278516383e305
"""The last number whose lgamma is finite."""


def _log(a: Real) -> Two:
    f, k = split(a)
    return log_twofold(exactly(f), k)


def quarter_turned(a: Real) -> tuple[Real, Two, Mask]:
    """r and v: a is r more than an integer, v = pi |r| or, where the mask holds, pi (1/2 - |r|);
    0 <= v <= pi / 4."""
    r = a - a.intrinsic("roundeven")
    size = abs(r)
    steep = size > 0.25
    return r, constant(a, *c.PI[:2]) * steep.where(0.5 - size, size), steep


# --- lgamma --------------------------------------------------------------------------------------


def lgamma(x: Real) -> Real:
    """log |gamma(x)|; infinite at 0, -1, -2, ..., and -inf at -inf, as in SciPy."""
    a = abs(x)
    low = a < 0.75
    log = _log(a)
    core = pick(a < 3.0, _lgamma_near(a, low), _lgamma_far(a, log))
    zero = exactly(a.lift(0.0))
    right = (core - pick(low, log, zero)).value()
    right = (a > LGAMMA_LARGEST).where(a.lift(math.inf), x.is_nan().where(x, right))

    def left() -> Real:
        """By gamma(-a) gamma(1 + a) = -pi / sin(pi a); near 0 gamma(-a) is -gamma(a)."""
        r, v, steep = quarter_turned(a)
        sine = steep.where(cos_near_0(v), sin_near_0(v))
        y = (constant(a, *s.LOG_PI) - _log(sine) - core - pick(low, zero, log)).value()
        y = (a < 2.0**-60).where(right, y)
        return r.same(0.0).where(a.lift(math.inf), (a < math.inf).where(y, x))

    y = x.at.rarely(x < 0.0, left, right)
    return a.same(0.0).where(a.lift(math.inf), y)


def _lgamma_near(a: Real, low: Mask) -> Two:
    """lgamma(a), 0.75 <= a <= 3; where `low`, lgamma(1 + a)."""
    b = low.where(a + 1.0, a)
    t = (b - LGAMMA_MIDDLE) / (b + LGAMMA_MIDDLE)
    p = quick_total(a.lift(s.LGAMMA_NEAR[0]), t * polynomial(t, s.LGAMMA_NEAR[1:]))
    less_1 = low.where(a, a - 1.0)
    return total(less_1, a.lift(-1.0)) * less_1 * p


def _lgamma_far(a: Real, log: Two) -> Two:
    """(a - 1/2) (log(a) - 1) + log(2 pi) / 2 - 1/2 + p(1 / a^2) / a, a >= 3."""
    u = 1.0 / a
    rest = constant(a, *s.STIRLING) + u * polynomial(u * u, s.LGAMMA_FAR)
    return (log + a.lift(-1.0)) * total(a, a.lift(-0.5)) + rest


# --- digamma -------------------------------------------------------------------------------------


def digamma(x: Real) -> Real:
    """The derivative of lgamma: -inf at 0, inf at -0, NaN at -1, -2, ..."""
    a = abs(x)
    low = a < 1.0
    core = pick(a < 3.0, _digamma_near(a, low), _digamma_far(a))
    one_over = exactly(a.lift(1.0)) / exactly(a)
    zero = exactly(a.lift(0.0))
    right = (core - pick(low, one_over, zero)).value()
    right = x.same(math.inf).where(x, right)

    def left() -> Real:
        """digamma(-a) = digamma(1 + a) + pi cot(pi a)."""
        r, v, steep = quarter_turned(a)
        t = tan_near_0(v)
        cot = pick(steep, t, exactly(a.lift(1.0)) / t) * constant(a, *c.PI[:2])
        cot = pick(r < 0.0, -cot, cot)
        y = (cot + (core + pick(low, zero, one_over))).value()
        return r.same(0.0).where(a.lift(math.nan), y)

    y = x.at.rarely(x < 0.0, left, right)
    return (a < 2.0**-60).where(-1.0 / x, y)


def _digamma_near(a: Real, low: Mask) -> Two:
    """digamma(a), 1 <= a <= 3; where `low`, digamma(1 + a)."""
    b = low.where(a + 1.0, a)
    t = (b - DIGAMMA_MIDDLE) / (b + DIGAMMA_MIDDLE)
    p = quick_total(a.lift(s.DIGAMMA_NEAR[0]), t * polynomial(t, s.DIGAMMA_NEAR[1:]))
    less_1 = low.where(a, a - 1.0)
    distance = total(less_1, a.lift(1.0 - s.DIGAMMA_ZERO[0])) + a.lift(-s.DIGAMMA_ZERO[1])
    return distance * p


def _digamma_far(a: Real) -> Two:
    """log(a) - 1 / (2 a) - p(1 / a^2) / a^2, a >= 3."""
    u = 1.0 / a
    rest = (u * u).fma(polynomial(u * u, s.DIGAMMA_FAR), 0.5 * u)
    return _log(a) + -rest
