"""asin, acos, atan, atan2 (float64)."""

from __future__ import annotations

import math

from chainrule.compile.mathlib.double_floats import (
    Two,
    constant,
    exactly,
    pick,
    quick_total,
    total,
)
from chainrule.compile.mathlib.evaluation import polynomial
from chainrule.compile.mathlib.reals import Real
from chainrule.ops.values import coefficients as c

TAN_PI_8 = math.sqrt(2) - 1


def _pi(x: Real, times: float) -> Two:
    return constant(x, c.PI[0] * times, c.PI[1] * times)


def _atan_ratio(low: Real, top: Real) -> Two:
    """atan(low / top), 0 <= low <= top: by tan(v - pi / 4) = (low - top) / (low + top) if large."""
    big = low > TAN_PI_8 * top
    above = pick(big, total(low, -top), exactly(low))
    below = pick(big, total(top, low), exactly(top))
    t = above / below
    z = t.hi * t.hi
    v = quick_total(t.hi, (t.hi * z).fma(polynomial(z, c.ATAN_F64), t.lo))
    base = _pi(low, 0.25)
    base = Two(big.where(base.hi, 0.0), big.where(base.lo, 0.0))
    return base + v


def _atan_ratio_f32(low: Real, top: Real) -> Real:
    """The same, plainly, for a result in float32."""
    big = low > TAN_PI_8 * top
    t = big.where(low - top, low) / big.where(low + top, top)
    z = t * t
    return (t * z).fma(polynomial(z, c.ATAN_COARSE), t + big.where(t.lift(c.PI[0] / 4), 0.0))


def atan_f32(x: Real) -> Real:
    """`atan` of float32, computed in float64."""
    a = abs(x.widened())
    steep = a > 1.0
    top = (a > 2.0**60).where(a.lift(2.0**60), steep.where(a, 1.0))
    v = _atan_ratio_f32(steep.where(a.lift(1.0), a), top)
    return steep.where(c.PI[0] / 2 - v, v).narrowed().copysign(x)


def atan2_f32(y: Real, x: Real) -> Real:
    """`atan2` of float32, computed in float64."""
    a, b = abs(y.widened()), abs(x.widened())
    steep = a > b
    low, top = steep.where(b, a), steep.where(a, b)
    inf = top.same(math.inf)
    low = inf.where(low.same(math.inf).where(low.lift(1.0), 0.0), low)
    top = (inf | top.same(0.0)).where(low.lift(1.0), top)
    v = _atan_ratio_f32(low, top)
    v = steep.where(c.PI[0] / 2 - v, v)
    v = (x.bits().less(0)).where(c.PI[0] - v, v).narrowed().copysign(y)
    return (x.is_nan() | y.is_nan()).where(x + y, v)


def atan(x: Real) -> Real:
    """The angle whose tangent is x, between -pi / 2 and pi / 2."""
    a = x.at.real(2.0**60)
    a = (abs(x) > a).where(a, abs(x))
    steep = a > 1.0
    v = _atan_ratio(steep.where(x.lift(1.0), a), steep.where(a, 1.0))
    v = pick(steep, _pi(x, 0.5) - v, v)
    return (abs(x) < 2.0**-30).where(x, v.value()).copysign(x)


def atan2(y: Real, x: Real) -> Real:
    """The angle of the point (x, y), between -pi and pi; signs of zeros count."""
    a, b = abs(y), abs(x)
    steep = a > b
    low, top = steep.where(b, a), steep.where(a, b)
    fit = (top > 2.0**900).where(x.lift(2.0**-120), (top < 2.0**-900).where(x.lift(2.0**120), 1.0))
    inf = top.same(math.inf)
    low = inf.where(low.same(math.inf).where(x.lift(1.0), 0.0), low * fit)
    top = inf.where(x.lift(1.0), top * fit)
    v = _atan_ratio(low, top.same(0.0).where(x.lift(1.0), top))
    v = pick(steep, _pi(x, 0.5) - v, v)
    left = x.bits().less(0)
    angle = pick(left, _pi(x, 1.0) - v, v).value().copysign(y)
    return (x.is_nan() | y.is_nan()).where(x + y, angle)


def _asin_parts(x: Real) -> Two:
    """asin(s), s = |x| if that is at most 1/2, else s = sqrt((1 - |x|) / 2)."""
    a = abs(x)
    big = a > 0.5
    z = big.where((1.0 - a) * 0.5, a * a)
    s = big.where(z.intrinsic("sqrt"), a)
    rest = (big & (z > 0.0)).where((-s).fma(s, z) / (s + s), 0.0)
    return quick_total(s, (s * z).fma(polynomial(z, c.ASIN_F64), rest))


def asin(x: Real) -> Real:
    """The angle whose sine is x, between -pi / 2 and pi / 2; NaN outside [-1, 1]."""
    v = _asin_parts(x)
    return pick(abs(x) > 0.5, _pi(x, 0.5) - v.times(2.0), v).value().copysign(x)


def acos(x: Real) -> Real:
    """The angle whose cosine is x, between 0 and pi; NaN outside [-1, 1]."""
    v = _asin_parts(x)
    right = v.times(2.0)
    far = pick(x < 0.0, _pi(x, 1.0) - right, right)
    middle = _pi(x, 0.5) - Two(v.hi.copysign(x), (x < 0.0).where(-v.lo, v.lo))
    return pick(abs(x) > 0.5, far, middle).value()
