"""Derivatives of digamma, of an order n that is known: psi_n (float64).

The recurrence takes x beyond a border, where n! / x^(n + 1) + ... follows its asymptotic series
(DLMF 5.15.5, 5.15.8), all in twofold arithmetic; on the left by reflection (DLMF 5.15.6), for which
the code jumps over that part if no lane needs it. All terms on the right have one sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from chainrule.compile.mathlib.evaluation import polynomial
from chainrule.compile.mathlib.reals import Real
from chainrule.compile.mathlib.special.gamma import quarter_turned
from chainrule.compile.mathlib.trigonometric import tan_near_0
from chainrule.compile.mathlib.twofold import Two, constant, exactly, pick, quick_total, total
from chainrule.ops import coefficients as c

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


def _reflected(a: Real, n: int) -> Two:
    """pi^(n + 1) times the n-th derivative of cot at pi a; a is no integer."""
    r, v, steep = quarter_turned(a)
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
            y = (_reflected(a, n) + (core if sign > 0 else -core)).value() * -sign
            pole = a.intrinsic("trunc").same(a)
            return pole.where(x.lift(sign * math.inf), y)

        y = x.at.rarely(negative, left, right)
        # A result beyond the largest number has parts that are none: near 0 it is n! / x^(n + 1).
        end = negative.where(x.lift(math.inf), sign * math.inf)
        return (y.is_nan() & ~x.is_nan()).where(end, y)

    return psi
