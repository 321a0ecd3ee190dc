"""Spherical Bessel functions j_n of an order n that is known (float64). Of order 0: sin(x) / x.

From n + 1/2 on by the recurrence from cos(x) / x and sin(x) / x upwards (DLMF 10.51.1, 10.49.3,
10.49.9), which cancels nothing there before the first zero. Below by the power series in x^2 / 4
(DLMF 10.53.1), its largest terms in twofold arithmetic. Beyond the first zero a result is right to
some units of 1 / x, of which the recurrence's parts are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from chainrule.compile.mathlib.double_floats import Two, constant, exactly, product
from chainrule.compile.mathlib.evaluation import polynomial
from chainrule.compile.mathlib.reals import Real
from chainrule.compile.mathlib.trigonometric import anywhere, sin_and_cos

ORDERS = range(5)
"""Those that have native code; what follows holds for more."""
PRECISE = 7
"""Coefficients of the series that are added in twofold arithmetic."""


def border(n: int) -> float:
    """From where on j_n is computed by the recurrence."""
    return n + 0.5


@cache
def series(n: int) -> list[tuple[float, float]]:
    """Of j_n(x) / x^n in powers of x^2 / 4: each coefficient and what it leaves, rounded; those
    that matter below the border."""
    c = Fraction(1, math.prod(range(1, 2 * n + 2, 2)))
    found: list[Fraction] = []
    least = c * Fraction(1, 2**62)
    while abs(c) * Fraction(border(n) / 2) ** (2 * len(found)) > least:
        found.append(c)
        c /= -len(found) * (n + Fraction(1, 2) + len(found))
    return [(float(c), float(c - Fraction(float(c)))) for c in found]


def _near(a: Real, n: int) -> Real:
    """j_n(a), 0 <= a <= n + 1/2."""
    half = a.clamp(0.0, border(n)) * 0.5
    z = product(half, half)
    table = series(n)
    y = exactly(polynomial(z.hi, [c for c, _ in table[PRECISE:]]))
    for c in reversed(table[:PRECISE]):
        y = z * y + constant(a, *c)
    for _ in range(n):
        y = y * (half * 2.0)
    return y.value()


def _far(a: Real, n: int, y: Two, below: Two) -> Real:
    """j_n(a), n + 1/2 <= a; y and below are the sine and the cosine of a."""
    u = exactly(a.lift(1.0)) / exactly(a)
    for k in range(n):
        y, below = y * u * a.lift(2.0 * k + 1.0) + -below, y
    return (y / exactly(a)).value()


def spherical_jn(n: int) -> Callable[[Real], Real]:
    """j_n, n >= 0: even or odd as n is, but 0 at -0, as in SciPy; 0 at infinity."""

    def j(x: Real) -> Real:
        a = abs(x)
        far = anywhere(lambda v, more: _far(a, n, *sin_and_cos(v, more)), a)
        y = (a < border(n)).where(_near(a, n), far)
        y = a.same(math.inf).where(a.lift(0.0), y)
        return (x < 0.0).where(-y, y) if n % 2 else y

    return j
