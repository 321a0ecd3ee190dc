"""Hyperbolic functions and their inverses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from chainrule.compile.mathlib.double_floats import (
    Two,
    exactly,
    pick,
    product,
    quick_total,
    root,
    total,
)
from chainrule.compile.mathlib.evaluation import power_of_two, scale
from chainrule.compile.mathlib.exponential import (
    Exponential,
    decay,
    exp_moderate,
    exp_near_0,
    exp_twofold,
    expm1_near_0,
    expm1_near_0_f32,
    expm1_twofold,
    expm1_wide,
)
from chainrule.compile.mathlib.logarithm import log1p_wide, log_twofold, split_past_1
from chainrule.compile.mathlib.reals import Bits, Real


def tanh(x: Real) -> Real:
    """(1 - e) / (1 + e), e = e^-(2 |x|): that of its derivative, `sech_square`, shared with it."""
    if x.at.bits == 32:
        return x.at.shared("tanh", x, lambda: TanhF32.of(x)).y.signed(x)
    r, k = decay(abs(x + x))
    e = Exponential.of(exp_near_0(r.hi), k).value()
    power = Exponential.of(x.lift(1.0), k).value()
    tail = expm1_near_0(r)
    one = quick_total(r.hi.lift(1.0), tail.hi)
    hi = (-power).multiply_add(one.hi, 1.0)
    lo = (-power).multiply_add(one.lo + tail.lo, (-power).multiply_add(one.hi, 1.0 - hi))
    below = quick_total(e.lift(1.0), e)
    inverse = 1.0 / below.hi
    y = (hi + lo) * inverse
    rest = (-y).fma(below.lo, (-y).fma(below.hi, hi) + lo)
    return rest.fma(inverse, y).copysign(x)


@final
@dataclass(frozen=True, eq=False, slots=True)
class TanhF32:
    """y = tanh(|x|) = d / (1 + e), d = 1 - e: d/2 + d/2 times the quotient, to round once more.
    Its derivative, 4 e / (1 + e)^2, needs e and 1 + y = 2 / (1 + e)."""

    y: Real
    e: Real
    more: Real

    @classmethod
    def of(cls, x: Real) -> TanhF32:
        """That of x."""
        r, k = decay(abs(x + x))
        p, power = expm1_near_0_f32(r.hi), scale(x.lift(1.0), k)
        d, e = (-power).fma(p, 1.0 - power), power.fma(p, power)
        q, half = d / (1.0 + e), d * 0.5
        return cls(half.fma(q, half), e, 1.0 + q)

    def slope(self) -> Real:
        """1 - y^2."""
        return self.e * self.more * self.more


def _inverse_square(k: Bits) -> Real:
    """2^(-2 k), or something too small to matter."""
    limited = k.less(200).choose(k, 200)
    return power_of_two(k.at.int(0) - limited - limited)


def sinh(x: Real) -> Real:
    """(e^x - e^-x) / 2."""
    a = abs(x)
    y, k = exp_twofold(exactly(a))
    one = exactly(x.lift(1.0))
    far = scale((y - (one / y).times(_inverse_square(k))).value(), k - 1)
    e, n = expm1_twofold(a.clamp(0.0, 1.0))
    e = e.times(power_of_two(n))
    near = (e + e / (e + x.lift(1.0))).times(0.5).value()
    return (a < 1.0).where(near, far).copysign(x)


def cosh(x: Real) -> Real:
    """(e^x + e^-x) / 2."""
    y, k = exp_twofold(exactly(abs(x)))
    one = exactly(x.lift(1.0))
    return scale((y + (one / y).times(_inverse_square(k))).value(), k - 1)


def sinh_f32(x: Real) -> Real:
    """`sinh` of float32, computed in float64."""
    e = expm1_wide(abs(x.widened()))
    return (0.5 * (e + e / (e + 1.0))).narrowed().copysign(x)


def cosh_f32(x: Real) -> Real:
    """`cosh` of float32, computed in float64."""
    y, k = exp_moderate(abs(x.widened()).clamp(0.0, 200.0))
    e = y * power_of_two(k)
    return (0.5 * (e + 1.0 / e)).narrowed()


def asinh_f32(x: Real) -> Real:
    """`asinh` of float32, computed in float64."""
    a = abs(x.widened())
    square = a * a
    y = log1p_wide(a + square / (1.0 + (1.0 + square).intrinsic("sqrt")))
    return (a < math.inf).where(y, a).narrowed().copysign(x)


def acosh_f32(x: Real) -> Real:
    """`acosh` of float32, computed in float64."""
    u = x.widened() - 1.0
    y = log1p_wide(u + (u * (u + 2.0)).intrinsic("sqrt"))
    return ((x >= 1.0) & (x < math.inf)).where(y.narrowed(), (x < 1.0).where(x.lift(math.nan), x))


def atanh_f32(x: Real) -> Real:
    """`atanh` of float32, computed in float64."""
    a = abs(x.widened())
    y = 0.5 * log1p_wide((a + a) / (1.0 - a))
    end = a.same(1.0).where(a.lift(math.inf), a.lift(math.nan))
    return (a < 1.0).where(y, end).narrowed().copysign(x)


def _log_past_1(t: Two, large: Real) -> Real:
    """log(1 + t), or log(2 large) where large is beyond 2^60."""
    huge = large > 2.0**60
    f, k = split_past_1(pick(huge, exactly(large), t))
    y = log_twofold(f, huge.choose(k + 1, k)).value()
    return (large < math.inf).where(y, large)


def asinh(x: Real) -> Real:
    """The x whose sinh it is: log(x + sqrt(x^2 + 1))."""
    a = abs(x)
    square = product(a, a)
    one = x.lift(1.0)
    t = (square / (root(square + one) + one)) + a
    y = (a < 2.0**-30).where(a, _log_past_1(t, a))
    return y.copysign(x)


def acosh(x: Real) -> Real:
    """log(x + sqrt(x^2 - 1)); NaN below 1."""
    u = total(x, x.lift(-1.0))
    t = u + root(u * u + u.times(2.0))
    return (x < 1.0).where(x.lift(math.nan), _log_past_1(t, x))


def atanh(x: Real) -> Real:
    """log((1 + x) / (1 - x)) / 2; NaN outside [-1, 1]."""
    a = abs(x)
    t = exactly(a + a) / total(x.lift(1.0), -a)
    y = log_twofold(*split_past_1(t)).value() * 0.5
    y = (a < 2.0**-30).where(a, y)
    y = a.same(1.0).where(x.lift(math.inf), y)
    return (a > 1.0).where(x.lift(math.nan), y).copysign(x)
