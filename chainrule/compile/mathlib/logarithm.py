"""Logarithms, and what is built of them.

x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and log(1 + f) = 2 artanh(s) with
s = f / (2 + f) in float64, a polynomial of f in float32 (Tang 1990, ACM TOMS 16, 378; Cody & Waite
1980, chapter 5).
"""

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
from chainrule.compile.mathlib.evaluation import polynomial, power_of_two
from chainrule.compile.mathlib.exponential import exp, exp_parts, exp_twofold
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.ops.values import coefficients as c

ROOT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}


def exponent(x: Real) -> Bits:
    """k where x / 2^k lies between sqrt(1/2) and sqrt(2); x normal and positive."""
    return (x.bits() - ROOT_HALF_BITS[x.at.bits]).signed_shift(x.at.mantissa)


def split(x: Real) -> tuple[Real, Bits]:
    """f and k where x = 2^k (1 + f), x positive."""
    at = x.at
    tiny = x < 2.0 ** (1 - at.bias)
    lifted = tiny.where(x * 2.0 ** (at.mantissa + 2), x)
    k = exponent(lifted)
    f = (lifted.bits() - (k << at.mantissa)).real() - 1.0
    return f, tiny.choose(k - (at.mantissa + 2), k)


def split_past_1(t: Two) -> tuple[Two, Bits]:
    """f and k where 1 + t = 2^k (1 + f), t > -1; near 0, f is t."""
    k = exponent(t.hi + 1.0)
    scaled = (k.equal(0)).where(t.hi, (t.hi.bits() - (k << t.hi.at.mantissa)).real())
    limited = k.less(1000).choose(k, 1000)
    down = power_of_two(t.hi.at.int(0) - limited)
    return total(scaled, down - 1.0) + t.lo * down, k


def split_twofold(y: Two) -> tuple[Two, Bits]:
    """f and k where y = 2^k (1 + f), y positive and normal."""
    k = exponent(y.hi)
    f = total((y.hi.bits() - (k << y.hi.at.mantissa)).real(), y.hi.lift(-1.0))
    return f + y.lo * power_of_two(y.hi.at.int(0) - k), k


def log_twofold(f: Two, k: Bits) -> Two:
    """log(2^k (1 + f)) to about 65 bits (float64)."""
    return log_near_1(f) + constant(f.hi, *c.LN2) * k.value()


def log_near_1(f: Two) -> Two:
    """log(1 + f) to about 65 bits, 1 + f between sqrt(1/2) and sqrt(2)."""
    s = f / (exactly(f.hi.lift(2.0)) + f)
    z = s * s
    tail = z.hi * polynomial(z.hi, c.LOG_TWICE)
    third = quick_total(f.hi.lift(c.TWO_THIRDS[0]), tail)
    third = Two(third.hi, third.lo + c.TWO_THIRDS[1])
    return s.times(2.0) + s * z * third


def log_plain(f: Real, k: Bits, more: Real | None = None) -> Real:
    """log(2^k (1 + f)), rounded (float64); `more` is added to it."""
    s = f / (2.0 + f)
    z = s * s
    half = 0.5 * f * f
    n = k.value()
    inner = n.fma(c.LN2[1], s * z.fma(polynomial(z, c.LOG_F64), half))
    return n.fma(c.LN2[0], f - (half - (inner if more is None else inner + more)))


def _log_f32(x: Real) -> Real:
    f, k = split(x)
    n = k.value()
    z = f * f
    y = (f * z).fma(polynomial(f, c.LOG_F32), n * c.LN2_F32[1])
    return n.fma(c.LN2_F32[0], f + z.fma(-0.5, y))


def at_ends(x: Real, y: Real) -> Real:
    """y for positive finite x; -inf at 0, NaN below it, inf at inf."""
    end = x.same(0.0).where(x.lift(-math.inf), (x < 0.0).where(x.lift(math.nan), x))
    return ((x > 0.0) & (x < math.inf)).where(y, end)


def log(x: Real) -> Real:
    """The natural logarithm."""
    return at_ends(x, _log_f32(x) if x.at.bits == 32 else log_plain(*split(x)))


def log2(x: Real) -> Real:
    """The logarithm to base 2; exact where x is a power of 2."""
    f, k = split(x)
    near = log_near_1(exactly(f)) * constant(x, *c.INV_LN2)
    return at_ends(x, (near + k.value()).value())


def log10(x: Real) -> Real:
    """The logarithm to base 10; exact where x is a power of 10."""
    f, k = split(x)
    near = log_near_1(exactly(f)) * constant(x, *c.INV_LN10)
    return at_ends(x, (near + constant(x, *c.LOG10_2) * k.value()).value())


def log1p(x: Real) -> Real:
    """log(1 + x), without cancellation near 0."""
    f, k = split_past_1(exactly(x))
    y = (abs(x) < 2.0**-60).where(x, log_plain(f.hi, k, (-f.hi).fma(f.lo, f.lo)))
    end = x.same(-1.0).where(x.lift(-math.inf), (x < -1.0).where(x.lift(math.nan), x))
    return ((x > -1.0) & (x < math.inf)).where(y, end)


def _log1p_short(e: Real) -> Real:
    """log(1 + e) for 0 <= e <= 1, in float64 for a result in float32."""
    big = e > math.sqrt(2) - 1
    return log_plain(big.where(e.fma(0.5, -0.5), e), big.choose(e.at.int(1), 0))


def log2_f32(x: Real) -> Real:
    """`log2` of float32, computed in float64."""
    f, k = split(x.widened())
    return at_ends(x, log_plain(f, k.at.int(0)).fma(c.INV_LN2[0], k.value()).narrowed())


def log10_f32(x: Real) -> Real:
    """`log10` of float32, computed in float64."""
    y = log_plain(*split(x.widened())) * c.INV_LN10[0]
    return at_ends(x, y.narrowed())


def log1p_wide(x: Real) -> Real:
    """log(1 + x) in float64 for a result in float32; x > -1."""
    k = exponent(x + 1.0)
    down = power_of_two(x.at.int(0) - k)
    return log_plain(x.fma(down, down - 1.0), k)


def log1p_f32(x: Real) -> Real:
    """`log1p` of float32, computed in float64."""
    y = log1p_wide(x.widened()).narrowed()
    y = (abs(x) < 2.0**-30).where(x, y)
    end = x.same(-1.0).where(x.lift(-math.inf), (x < -1.0).where(x.lift(math.nan), x))
    return ((x > -1.0) & (x < math.inf)).where(y, end)


def logaddexp(a: Real, b: Real) -> Real:
    """log(e^a + e^b), without overflow."""
    above = (a > b).where(a, b)
    distance = total(a, -b)
    distance = pick(a < b, distance, -distance)
    e, k = exp_twofold(distance)
    e = e.times(power_of_two(k.less(-200).choose(k.at.int(-200), k)))
    small = log_near_1_plus(e)
    sum_ = small + above
    tiny = exp(distance.hi)
    y = (distance.hi < -100.0).where(above + tiny, sum_.value())
    return _logaddexp_ends(a, b, y)


def log_near_1_plus(e: Two) -> Two:
    """log(1 + e) for 0 <= e <= 1."""
    return log_twofold(*split_past_1(e))


def logaddexp_f32(a: Real, b: Real) -> Real:
    """`logaddexp` of float32, computed in float64."""
    wa, wb = a.widened(), b.widened()
    above = (wa > wb).where(wa, wb)
    y, k = exp_parts(-abs(wa - wb))
    e = y * power_of_two(k.less(-1000).choose(k.at.int(-1000), k))
    return _logaddexp_ends(a, b, (above + _log1p_short(e)).narrowed())


def _logaddexp_ends(a: Real, b: Real, y: Real) -> Real:
    """y, where neither is infinite or NaN; the sum of equal ones as NumPy takes it."""
    above = (a > b).where(a, b)
    y = (abs(above) < math.inf).where(y, above)
    y = a.same(b).where(a + c.LN2[0], y)
    return (a.is_nan() | b.is_nan()).where(a + b, y)


def softplus(x: Real) -> Real:
    """log(1 + e^x)."""
    return logaddexp(x, x.at.real(0.0))


def softplus_f32(x: Real) -> Real:
    """`softplus` of float32, computed in float64."""
    return logaddexp_f32(x, x.at.real(0.0))
