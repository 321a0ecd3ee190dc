"""exp and what is built of it.

x = n ln 2 + r with |r| <= ln(2) / 2, so exp(x) = 2^n exp(r). The reduction is exact but for the
second part of ln 2 (Cody & Waite, Software Manual for the Elementary Functions, 1980, chapter 6).
Where a result is formed of exp, the factor 2^n is applied last, so that small results underflow
gradually and are rounded once.
"""

from __future__ import annotations

import math

from chainrule.compile.mathlib import coefficients as c
from chainrule.compile.mathlib.evaluation import nearest, polynomial, power_of_two, scale
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.compile.mathlib.twofold import (
    Two,
    constant,
    exactly,
    pick,
    product,
    quick_total,
    total,
)

# Beyond these exp is 0 or infinite, also when multiplied by a number of the same size.
RANGE = {32: (-160.0, 100.0), 64: (-1100.0, 720.0)}


def _reduced(x: Real) -> tuple[Two, Bits]:
    """r and n of x = n ln 2 + r."""
    hi, lo = c.LN2_F32 if x.at.bits == 32 else c.LN2
    n, k = nearest(x, c.INV_LN2[0])
    near = (-n).fma(hi, x)
    r = (-n).fma(lo, near)
    return Two(r, (-n).fma(lo, near - r)), k


def exp_parts(x: Real) -> tuple[Real, Bits]:
    """y and k where exp(x) = y 2^k and y is near 1."""
    return exp_moderate(x.clamp(*RANGE[x.at.bits]))


def exp_moderate(x: Real) -> tuple[Real, Bits]:
    """`exp_parts` of a number known to be in `RANGE`."""
    r, k = _reduced(x)
    return exp_near_0(r.hi), k


def exp_near_0(r: Real) -> Real:
    """exp(r), |r| <= ln(2) / 2."""
    if r.at.bits == 32:
        return polynomial(r, c.EXP_F32).fma(r, 1.0).fma(r, 1.0)
    return 1.0 + (r * r).fma(polynomial(r, c.EXP_F64), r)


def _expm1_near_0(r: Two) -> Two:
    """exp(r) - 1, a little better than rounded."""
    tail = (r.hi * r.hi).fma(polynomial(r.hi, c.EXP_F64), r.lo)
    return Two(r.hi, tail)


def exp_twofold(x: Two) -> tuple[Two, Bits]:
    """y and k where exp(x) = y 2^k, y a little better than rounded (float64)."""
    r, k = _reduced(x.hi.clamp(*RANGE[64]))
    more = (abs(x.hi) < -RANGE[64][0]).where(x.lo, 0.0)
    e = _expm1_near_0(total(r.hi, r.lo + more))
    s = quick_total(r.hi.lift(1.0), e.hi)
    return quick_total(s.hi, s.lo + e.lo), k


def expm1_twofold(x: Real) -> tuple[Two, Bits]:
    """y and k where exp(x) - 1 = y 2^k (float64)."""
    r, k = _reduced(x.clamp(-60.0, RANGE[64][1]))
    e = _expm1_near_0(r)
    small = k.less(100).choose(k, 100)
    s = total(1.0 - power_of_two(x.at.int(0) - small), e.hi)
    return quick_total(s.hi, s.lo + e.lo), k


def exp(x: Real) -> Real:
    """e^x."""
    return scale(*exp_parts(x))


def exp2_parts(x: Real) -> tuple[Real, Bits]:
    """y and k where 2^x = y 2^k and y is near 1; y is 1 where x is an integer."""
    hi, lo = c.LN2_F32 if x.at.bits == 32 else c.LN2
    low, high = RANGE[x.at.bits]
    limited = x.clamp(low / hi, high / hi)
    n, k = nearest(limited)
    f = limited - n
    return exp_near_0(f.fma(hi, f * lo)), k


def exp2(x: Real) -> Real:
    """2^x."""
    return scale(*exp2_parts(x))


def expm1(x: Real) -> Real:
    """e^x - 1, without cancellation near 0."""
    y, k = expm1_twofold(x)
    return scale(y.value(), k).copysign(x)


def expm1_wide(x: Real) -> Real:
    """e^x - 1 in float64 for a result in float32."""
    r, k = _reduced(x.clamp(-60.0, 200.0))
    power = power_of_two(k)
    return _expm1_near_0(r).value().fma(power, power - 1.0)


def expm1_f32(x: Real) -> Real:
    """`expm1` of float32, computed in float64."""
    return expm1_wide(x.widened()).narrowed().copysign(x)


def exp_diff(a: Real, b: Real) -> Real:
    """e^(a - b), and 0 where a is -inf."""
    return a.same(-math.inf).where(a.at.real(0.0), exp(a - b))


def sigmoid(x: Real) -> Real:
    """1 / (1 + e^-x)."""
    u = exactly(x)
    return _gate_f32(u) if x.at.bits == 32 else _gate(u)


def silu(x: Real) -> Real:
    """x sigmoid(x)."""
    return gated(x, exactly(x))


def gelu_tanh(x: Real) -> Real:
    """x (1 + tanh(u)) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    square = product(x, x)
    cubic = constant(x, *(c.GELU_CUBIC_F32 if x.at.bits == 32 else c.GELU_CUBIC))
    factor = square * cubic + x.at.real(1.0)
    root = constant(x, *(c.SQRT_2_PI_F32 if x.at.bits == 32 else c.SQRT_2_PI))
    u = (factor * (root.times(2.0))) * x
    plain = 2.0 * c.SQRT_2_PI[0] * x
    far = abs(x) < 1e4
    return gated(x, Two(far.where(u.hi, plain), far.where(u.lo, 0.0)))


def gated(x: Real, u: Two) -> Real:
    """x sigmoid(u), which is NaN at -inf, as inf times 0 is."""
    finite = abs(x) < math.inf
    floor = RANGE[x.at.bits][0]
    limited = (x.lift(floor) > x).where(x.lift(floor), x)
    y = _gate_f32(u, limited) if x.at.bits == 32 else _gate(u, limited).copysign(x)
    return finite.where(y, x * (x > 0.0).where(x.at.real(1.0), 0.0))


def _gate_f32(u: Two, x: Real | None = None) -> Real:
    """One division, and its remainder: rounded as it stands, a gate would be off by 3 ulp."""
    r, k = _reduced((-abs(u.hi)).clamp(*RANGE[32]))
    negative = u.hi < 0.0
    r = r.hi + negative.where(u.lo, -u.lo)
    e = quick_total(u.hi.lift(1.0), polynomial(r, c.EXP_F32).fma(r * r, r))
    down = power_of_two(k.less(-126).choose(k.at.int(-126), k))
    below = e.hi.fma(down, 1.0)
    more = e.lo.fma(down, e.hi.fma(down, 1.0 - below))
    one = 1.0 / below
    top = negative.where(e.hi, 1.0)
    share = top * one
    rest = (-share).fma(below, top) + (-share).fma(more, negative.where(e.lo, 0.0))
    y = rest.fma(one, share)
    return scale(y if x is None else y * x, negative.choose(k, 0))


def _gate(u: Two, x: Real | None = None) -> Real:
    negative = u.hi < 0.0
    e, k = exp_twofold(pick(negative, u, -u))
    down = k.less(-300).choose(u.hi.at.int(-300), k)
    one = exactly(u.hi.lift(1.0))
    y = pick(negative, e, one) / (one + e.times(power_of_two(down)))
    if x is not None:
        y = y * x
    return scale(y.value(), negative.choose(k, 0))
