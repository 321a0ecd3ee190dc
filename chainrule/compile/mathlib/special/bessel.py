"""Modified Bessel functions I_0, I_1, I_2, and the same times exp(-|x|) (float64).

To 8 the power series in x^2 / 4, all of whose terms are positive, its first terms in twofold
arithmetic; beyond, what is left of exp(x) / sqrt(2 pi x) is a polynomial of 1 / x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from chainrule.compile.mathlib.double_floats import Two, constant, exactly, pick, product, root
from chainrule.compile.mathlib.evaluation import polynomial, power_of_two, scale
from chainrule.compile.mathlib.exponential import exp_twofold
from chainrule.compile.mathlib.reals import Mask, Real
from chainrule.ops.values import special_coefficients as s

BORDER = 8.0
PRECISE = 6
"""Coefficients that are added in twofold arithmetic: the series' largest terms are among them."""


def _near(a: Real, table: Sequence[float]) -> Two:
    """1 + z p(z), z = a^2 / 4, 0 <= a <= 8."""
    half = a.clamp(0.0, BORDER) * 0.5
    z = product(half, half)
    y = exactly(polynomial(z.hi, table[PRECISE:]))
    for c in reversed((1.0, *table[:PRECISE])):
        y = z * y + a.lift(c)
    return y


def _far(a: Real, table: Sequence[float]) -> Two:
    """(1 + u p(16 u - 1)) / sqrt(2 pi a), u = 1 / a, a >= 8."""
    u = 1.0 / a
    first = constant(a, *s.INV_ROOT_2_PI) / root(exactly(a))
    more = first.hi * (u * polynomial(u.fma(16.0, -1.0), table))
    return Two(first.hi, first.lo + more)


def _scale(a: Real, near: Two, far: Two) -> Real:
    """exp(-a) times near where a is below the border, else far; 0 at infinity."""
    e, k = exp_twofold(exactly(-a.clamp(0.0, BORDER)))
    small = e * near
    y = pick(_is_near(a), small.times(power_of_two(k)), far).value()
    return a.same(math.inf).where(a.lift(0.0), y)


def _whole(a: Real, near: Two, far: Two) -> Real:
    """near where a is below the border, else exp(a) far; NaN at infinity, as inf times 0 is."""
    e, k = exp_twofold(exactly(a.clamp(0.0, 720.0)))
    y = _is_near(a).where(near.value(), scale((e * far).value(), k))
    return a.same(math.inf).where(a.lift(math.nan), y)


def _is_near(a: Real) -> Mask:
    return a < BORDER


def i0(x: Real) -> Real:
    """I_0."""
    a = abs(x)
    return _whole(a, _near(a, s.I0_NEAR), _far(a.clamp(BORDER, 720.0), s.I0_FAR))


def i0e(x: Real) -> Real:
    """exp(-|x|) I_0(x)."""
    a = abs(x)
    return _scale(a, _near(a, s.I0_NEAR), _far(a, s.I0_FAR))


def _near_1(a: Real) -> Two:
    return _near(a, s.I1_NEAR) * (a * 0.5)


def i1(x: Real) -> Real:
    """I_1, odd; 0 at -0, as in SciPy."""
    a = abs(x)
    y = _whole(a, _near_1(a), _far(a.clamp(BORDER, 720.0), s.I1_FAR))
    return (x < 0.0).where(-y, y)


def i1e(x: Real) -> Real:
    """exp(-|x|) I_1(x), odd; 0 at -0, as in SciPy."""
    a = abs(x)
    y = _scale(a, _near_1(a), _far(a, s.I1_FAR))
    return (x < 0.0).where(-y, y)


def _near_2(a: Real) -> Two:
    half = a.clamp(0.0, BORDER) * 0.5
    return _near(a, s.I2_NEAR) * product(half, half).times(0.5)


def i2(x: Real) -> Real:
    """I_2."""
    a = abs(x)
    return _whole(a, _near_2(a), _far(a.clamp(BORDER, 720.0), s.I2_FAR))


def i2e(x: Real) -> Real:
    """exp(-|x|) I_2(x)."""
    a = abs(x)
    return _scale(a, _near_2(a), _far(a, s.I2_FAR))
