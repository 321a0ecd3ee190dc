"""Powers and roots."""

from __future__ import annotations

import math

from chainrule.compile.mathlib.double_floats import Two, exactly, product, quick_total, root
from chainrule.compile.mathlib.evaluation import nearest, polynomial, power_of_two, scale
from chainrule.compile.mathlib.exponential import exp2_parts, exp_twofold
from chainrule.compile.mathlib.logarithm import log_plain, log_twofold, split
from chainrule.compile.mathlib.reals import Mask, Real
from chainrule.ops.values import coefficients as c


def pow(a: Real, b: Real) -> Real:
    """a^b = exp(b log|a|), the logarithm and the product to twice the digits."""
    size = abs(a)
    f, k = split(size)
    u = log_twofold(exactly(f), k)
    p = product(b, u.hi)
    hi = _at_ends(size, b, p.hi)
    lo = (abs(hi) < 2000.0).where(b.fma(u.lo, p.lo), 0.0)
    y, n = exp_twofold(Two(hi, lo))
    return _with_sign(a, b, scale(y.value(), n))


def pow_f32(a: Real, b: Real) -> Real:
    """`pow` of float32, computed in float64."""
    wide = b.widened()
    size = abs(a.widened())
    f, k = split(size)
    u = log_plain(f, k.at.int(0)).fma(c.INV_LN2[0], k.value())
    y, n = exp2_parts(_at_ends(size, wide, wide * u))
    return _with_sign(a, b, scale(y, n).narrowed())


def _at_ends(size: Real, b: Real, product: Real) -> Real:
    """b log(size), where size is 0, infinite or NaN too."""
    end = size.same(0.0).where(b * -math.inf, b * size)
    return ((size > 0.0) & (size < math.inf)).where(product, end)


def _is_integer(b: Real) -> Mask:
    return b.intrinsic("trunc").same(b)


def _with_sign(a: Real, b: Real, y: Real) -> Real:
    """y = |a|^b with its sign, and what IEEE 754 (9.2.1) says of the special cases."""
    whole = _is_integer(b)
    odd = whole & ~_is_integer(b * 0.5)
    y = odd.where(y.copysign(a), y)
    y = ((a < 0.0) & (abs(a) < math.inf) & ~whole).where(y.lift(math.nan), y)
    one = a.same(1.0) | b.same(0.0) | (a.same(-1.0) & abs(b).same(math.inf))
    return one.where(y.lift(1.0), y)


def cbrt(x: Real) -> Real:
    """The real cube root: a guess and two steps of Newton's, the last to twice the digits."""
    at, size = x.at, abs(x)
    tiny = size < 2.0 ** (1 - at.bias)
    lifted = tiny.where(size * 2.0**54, size)
    e = (lifted.bits() >> at.mantissa) - at.bias
    m = (lifted.bits() - (e << at.mantissa)).real()
    third, j = nearest(e.value() - 1.0, 1 / 3)
    left = third.fma(-3.0, e.value())
    power = left.same(0.0).where(x.lift(1.0), left.same(1.0).where(x.lift(2.0), 4.0))
    guess = left.same(0.0).where(
        x.lift(1.0), left.same(1.0).where(x.lift(2.0 ** (1 / 3)), 2.0 ** (2 / 3))
    )
    y = _cbrt_near_1(m * power, polynomial(m, c.CBRT) * guess)
    y = (y * power_of_two(tiny.choose(j - 18, j))).copysign(x)
    return ((size > 0.0) & (size < math.inf)).where(y, x)


def _cbrt_near_1(a: Real, y: Real) -> Real:
    square = y * y
    y = y - square.fma(y, -a) / (3.0 * square)
    twice = product(y, y)
    cube = product(twice.hi, y)
    rest = (cube.hi - a) + twice.lo.fma(y, cube.lo)
    return y - rest / (3.0 * twice.hi)


def hypot(a: Real, b: Real) -> Real:
    """sqrt(a^2 + b^2) without overflow or underflow on the way."""
    p, q = abs(a), abs(b)
    top, low = (p > q).where(p, q), (p > q).where(q, p)
    half = float(2 ** (a.at.bias // 2 - 5))
    up = (top > half).where(
        a.lift(1 / half / half), (top < 1 / half).where(a.lift(half * half), 1.0)
    )
    back = (top > half).where(
        a.lift(half * half), (top < 1 / half).where(a.lift(1 / half / half), 1.0)
    )
    x, y = product(top * up, top * up), product(low * up, low * up)
    s = quick_total(x.hi, y.hi)
    r = root(Two(s.hi, s.lo + (x.lo + y.lo))).value() * back
    r = (top > 0.0).where(r, top)
    r = (p.is_nan() | q.is_nan()).where(a + b, r)
    return (p.same(math.inf) | q.same(math.inf)).where(a.lift(math.inf), r)


def hypot_f32(a: Real, b: Real) -> Real:
    """`hypot` of float32, computed in float64."""
    x, y = a.widened(), b.widened()
    r = x.fma(x, y * y).intrinsic("sqrt").narrowed()
    return (abs(a).same(math.inf) | abs(b).same(math.inf)).where(a.lift(math.inf), r)
