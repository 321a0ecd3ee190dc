"""The logarithm of the gamma function, its derivative, and the derivatives of that (float64).

From 3 on Stirling's series with a minimax polynomial for its tail (DLMF 5.11.1, 5.11.2); up to 3 a
polynomial times the zeros; near 0 by the recurrence. On the left by reflection (DLMF 5.5.3, 5.5.4),
which the code jumps over if no lane needs it. Near the zeros on the left a result is right to some
units of the parts that cancel there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from chainrule.compile.mathlib.double_floats import Two, constant, exactly, pick, quick_total, total
from chainrule.compile.mathlib.evaluation import polynomial
from chainrule.compile.mathlib.logarithm import log_twofold, split
from chainrule.compile.mathlib.reals import Mask, Real
from chainrule.compile.mathlib.trigonometric import cos_near_0, sin_near_0, tan_near_0
from chainrule.ops.values import coefficients as c
from chainrule.ops.values import special_coefficients as s

LGAMMA_MIDDLE, DIGAMMA_MIDDLE = 1.46875, 1.75
LGAMMA_LARGEST = 2.5599833278516383e305
"""The last number whose lgamma is finite."""


def _log(a: Real) -> Two:
    f, k = split(a)
    return log_twofold(exactly(f), k)


def quarter_reduced(a: Real) -> tuple[Real, Two, Mask]:
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
        r, v, steep = quarter_reduced(a)
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
        r, v, steep = quarter_reduced(a)
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


# --- derivatives of digamma -----------------------------------------------------------------------
# The recurrence takes x beyond a border, where n! / x^(n + 1) + ... follows its asymptotic series
# (DLMF 5.15.5, 5.15.8), all in twofold arithmetic; on the left by reflection (DLMF 5.15.6), for
# which the code jumps over that part if no lane needs it. All terms on the right have one sign.

ORDERS = range(1, 5)
"""Those that have native code; what follows holds for more."""
TERMS = 10
"""Of the asymptotic series: what is left out is below 2^-55 from the border on, for n < 9."""


def border(n: int) -> float:
    """From where on psi_n is its series."""
    return 10.0 + n


@cache
def _bernoulli(m: int) -> Fraction:
    """The Bernoulli number B_m, by its recurrence (DLMF 24.5.3)."""
    if m == 0:
        return Fraction(1)
    return -sum((math.comb(m + 1, j) * _bernoulli(j) for j in range(m)), Fraction(0)) / (m + 1)


@cache
def series(n: int) -> list[float]:
    """Of 1 / x^2: what multiplies (n - 1)! / x^n, but for 1 + n / (2 x)."""
    return [
        float(_bernoulli(2 * k) * math.factorial(2 * k + n - 1))
        / (math.factorial(2 * k) * math.factorial(n - 1))
        for k in range(1, TERMS + 1)
    ]


@cache
def cotangent(n: int) -> list[int]:
    """The n-th derivative of cot as a polynomial of cot: each is -(1 + c^2) times the last's."""
    p = [0, 1]
    for _ in range(n):
        slope = [-k * a for k, a in enumerate(p)][1:]
        p = [a + b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return p


def _power(x: Two, n: int) -> Two:
    y = x
    for _ in range(n - 1):
        y = y * x
    return y


def _positive(v: Two, n: int) -> Two:
    """|psi_n(v)|, v > 0: psi_n(v) and n! / v^(n + 1) + psi_n(v + 1) differ in sign only."""
    one = v.hi.lift(1.0)
    met = exactly(v.hi.lift(0.0))
    for _ in range(int(border(n))):
        below = v.hi < border(n)
        met = pick(below, met + _power(exactly(one) / v, n + 1), met)
        v = pick(below, v + one, v)
    w = exactly(one) / v
    z = w.hi * w.hi
    ratio = quick_total(one, (w.hi * (n / 2)) + z * polynomial(z, series(n)))
    y = met * one.lift(float(n)) + _power(w, n) * ratio
    return y * one.lift(float(math.factorial(n - 1)))


def _reflect(a: Real, n: int) -> Two:
    """pi^(n + 1) times the n-th derivative of cot at pi a; a is no integer."""
    r, v, steep = quarter_reduced(a)
    t = tan_near_0(v)
    cot = pick(steep, t, exactly(a.lift(1.0)) / t)
    cot = pick(r < 0.0, -cot, cot)
    coefficients = cotangent(n)
    y = exactly(a.lift(float(coefficients[-1])))
    for k in reversed(coefficients[:-1]):
        y = y * cot + a.lift(float(k))
    return y * _power(constant(a, *c.PI[:2]), n + 1)


def polygamma(n: int) -> Callable[[Real], Real]:
    """psi_n, n >= 1; infinite at 0, -1, -2, ..."""
    sign = -1.0 if n % 2 == 0 else 1.0

    def psi(x: Real) -> Real:
        a, negative = abs(x), x < 0.0
        core = _positive(pick(negative, total(a, x.lift(1.0)), exactly(a)), n)
        right = a.same(math.inf).where(x.lift(0.0), core.value()) * sign

        def left() -> Real:
            """(-1)^n psi_n(-a) = pi^(n + 1) cot^(n)(pi a) + psi_n(1 + a)."""
            y = (_reflect(a, n) + (core if sign > 0 else -core)).value() * -sign
            pole = a.intrinsic("trunc").same(a)
            return pole.where(x.lift(sign * math.inf), y)

        y = x.at.rarely(negative, left, right)
        # A result beyond the largest number has parts that are none: near 0 it is n! / x^(n + 1).
        end = negative.where(x.lift(math.inf), sign * math.inf)
        return (y.is_nan() & ~x.is_nan()).where(end, y)

    return psi
