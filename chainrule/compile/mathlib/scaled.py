"""erfcx, exp(x^2) erfc(x), and by it the logarithm of the normal distribution (float64)."""

from __future__ import annotations

import math

from chainrule.compile.mathlib import coefficients as c
from chainrule.compile.mathlib import special_coefficients as s
from chainrule.compile.mathlib.error import erfc_parts, normal, scaled_erfc
from chainrule.compile.mathlib.evaluation import polynomial, power_of_two, scale
from chainrule.compile.mathlib.exponential import exp_twofold
from chainrule.compile.mathlib.logarithm import log_twofold, split_past_1, split_twofold
from chainrule.compile.mathlib.reals import Real
from chainrule.compile.mathlib.twofold import Two, constant, exactly, pick, product, quick_total

FAR = 28.0
"""Where erfc underflows, and the asymptotic series of erfcx takes over."""


def _erfcx(x: Two) -> Two:
    """erfcx(x), x >= 0."""
    limited = x.hi.clamp(0.0, FAR)
    near = scaled_erfc(Two(limited, (x.hi < FAR).where(x.lo, 0.0)))
    u = 1.0 / x.hi
    u = u * u
    far = constant(x.hi, *s.INV_ROOT_PI) / x
    more = far.hi * (u * polynomial(u, s.ERFCX_FAR))
    return pick(x.hi < FAR, near, Two(far.hi, far.lo + more))


def _erf(x: Real) -> Two:
    """erf(x), |x| < 1 / 2."""
    return quick_total(x, x * polynomial(x * x, c.ERF_F64))


def erfcx(x: Real) -> Real:
    """exp(x^2) erfc(x) without overflow; 2 exp(x^2) less that of -x on the left."""
    a = abs(x)
    limited = a.clamp(0.0, FAR)
    e, k = exp_twofold(product(limited, limited))
    down = power_of_two(x.at.int(0) - k.less(900).choose(k, 900))
    far = _erfcx(exactly(a))
    right = (a < math.inf).where(far.value(), 1.0 / a)
    left = scale((e.times(2.0) - far.times(down)).value(), k)
    y = (x < 0.0).where((a < FAR).where(left, math.inf), right)
    near = (e * (exactly(x.lift(1.0)) - _erf(x))).value() * power_of_two(k.less(1).choose(k, 1))
    return (a < 0.5).where(near, x.is_nan().where(x, y))


def log_ndtr(x: Real) -> Real:
    """log(erfc(-x / sqrt(2)) / 2): on the left by erfcx, on the right by log(1 + t)."""
    f, k = split_past_1(_erf(x.clamp(-0.5, 0.5) * c.SQRT_HALF[0]))
    near = log_twofold(f, k - 1).value()
    y = (x < 0.0).where(_log_left(x), x.is_nan().where(x, _log_right(x)))
    return (abs(x) < 0.5).where(near, y)


def _log_left(x: Real) -> Real:
    """-x^2 / 2 + log(erfcx(-x / sqrt(2)) / 2), x <= 0; both parts are negative."""
    a = abs(x)
    half = product(a * 0.5, a)
    f, k = split_twofold(_erfcx(constant(x, *c.SQRT_HALF) * a))
    y = log_twofold(f, k - 1) - half
    return half.hi.same(math.inf).where(-half.hi, y.value())


def _log_right(x: Real) -> Real:
    """log(1 - t), t = erfc(x / sqrt(2)) / 2, x >= 0; where t is below an ulp of 1, -t."""
    a = x.clamp(0.0, 39.5)
    y, k = erfc_parts(constant(x, *c.SQRT_HALF) * a, product(a * 0.5, a))
    y = -y.times(0.5)
    near = log_twofold(*split_past_1(normal(y, k))).value()
    return (a < 8.5).where(near, scale(y.value(), k))
