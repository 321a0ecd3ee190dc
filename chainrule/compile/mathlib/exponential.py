"""exp and what is built of it.

x = n ln 2 + r with |r| <= ln(2) / 2, so exp(x) = 2^n exp(r). The reduction is exact but for the
second part of ln 2 (Cody & Waite, Software Manual for the Elementary Functions, 1980, chapter 6).
Where a result is formed of exp, the factor 2^n is applied last, so that small results underflow
gradually and are rounded once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from chainrule.compile.mathlib.double_floats import Two, product, quick_total, total
from chainrule.compile.mathlib.evaluation import nearest, polynomial, power_of_two, scale
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.ops.values import coefficients as c

# Beyond these exp is 0 or infinite, also when multiplied by a number of the same size.
RANGE = {32: (-160.0, 100.0), 64: (-1100.0, 720.0)}


def halves(x: float, places: int) -> tuple[float, float]:
    """x as a multiple of 2^-places, and the rest of it in float32."""
    hi = round(math.ldexp(x, places)) * 2.0**-places
    return hi, float(np.float32(x - hi))


def _halves_f64(x: tuple[float, float], places: int) -> tuple[float, float]:
    """The same of a number that two floats make, the rest of it in float64."""
    hi = round(math.ldexp(x[0], places)) * 2.0**-places
    return hi, (x[0] - hi) + x[1]


EXACT_LN2 = {32: halves(math.log(2), 15), 64: _halves_f64(c.LN2, 42)}
"""ln 2: its first part times any n is exact, up to 2^9 in float32 and 2^11 in float64."""

LEAST = {32: -112.0, 64: -760.0}
"""Below it an exponential is 0, also times a thousand."""
UP = {32: 40, 64: 80}
"""A power of two that makes normal numbers of exponentials of `LEAST`."""


def _reduce(x: Real) -> tuple[Two, Bits]:
    """r and n of x = n ln 2 + r. n times the first part of ln 2 is exact, so no instruction is
    needed that rounds a product and a sum once."""
    hi, lo = EXACT_LN2[x.at.bits]
    n, k = nearest(x, c.INV_LN2[0])
    near = (-n).multiply_add(hi, x)
    r = (-n).multiply_add(lo, near)
    return Two(r, (-n).multiply_add(lo, near - r)), k


def exp_parts(x: Real) -> tuple[Real, Bits]:
    """y and k where exp(x) = y 2^k and y is near 1."""
    return exp_moderate(x.clamp(*RANGE[x.at.bits]))


def exp_moderate(x: Real) -> tuple[Real, Bits]:
    """`exp_parts` of a number known to be in `RANGE`."""
    r, k = _reduce(x)
    return exp_near_0(r.hi), k


def exp_near_0(r: Real) -> Real:
    """exp(r), |r| <= ln(2) / 2."""
    if r.at.bits == 32:
        return polynomial(r, c.EXP_F32).fma(r, 1.0).fma(r, 1.0)
    return 1.0 + (r * r).multiply_add(polynomial(r, c.EXP_F64), r)


def expm1_near_0_f32(r: Real) -> Real:
    """exp(r) - 1 of float32, |r| <= ln(2) / 2."""
    return polynomial(r, c.EXP_F32).fma(r * r, r)


def decay(v: Real) -> tuple[Two, Bits]:
    """r and k of e^-v = 2^k e^r, v >= 0; as of `LEAST` where v is beyond it."""
    least = v.lift(LEAST[v.at.bits])
    return _reduce((least > -v).where(least, -v))


@final
@dataclass(frozen=True, eq=False, slots=True)
class Exponential:
    """e = `most` `rest`: the first a normal number where e is none, the second a power of two."""

    most: Real
    rest: float

    @classmethod
    def of(cls, y: Real, k: Bits) -> Exponential:
        """y 2^k, y near 1, k not below that of `LEAST`."""
        up = UP[y.at.bits]
        return cls(y * power_of_two(k + up), 2.0**-up)

    @classmethod
    def at_least(cls, y: Real, k: Bits) -> Exponential:
        """y 2^k, or something as good as 0."""
        least = round(LEAST[y.at.bits] / math.log(2))
        return cls.of(y, k.less(least).choose(k.at.int(least), k))

    @classmethod
    def minus(cls, v: Real) -> Exponential:
        """e^-v, v >= 0."""
        r, k = decay(v)
        return cls.of(exp_near_0(r.hi), k)

    def value(self) -> Real:
        """e, rounded."""
        return self.most * self.rest


def reduced_f32(u: Real, rest: Real | None = None) -> tuple[Real, Bits]:
    """r and k of e^-(u + rest) = 2^k e^r; u of float32, rest at most an ulp of it."""
    n, k = nearest(u, -c.INV_LN2[0])
    hi, lo = EXACT_LN2[32]
    r = n.multiply_add(-lo, n.multiply_add(-hi, -u))
    return (r if rest is None else r - rest), k


def expm1_near_0(r: Two) -> Two:
    """exp(r) - 1, a little better than rounded."""
    tail = (r.hi * r.hi).multiply_add(polynomial(r.hi, c.EXP_F64), r.lo)
    return Two(r.hi, tail)


def exp_twofold(x: Two, low: float = RANGE[64][0]) -> tuple[Two, Bits]:
    """y and k where exp(x) = y 2^k, y a little better than rounded (float64); `low` as in
    `RANGE`."""
    r, k = _reduce(x.hi.clamp(low, RANGE[64][1]))
    more = (abs(x.hi) < -low).where(x.lo, 0.0)
    e = expm1_near_0(total(r.hi, r.lo + more))
    s = quick_total(r.hi.lift(1.0), e.hi)
    return quick_total(s.hi, s.lo + e.lo), k


@final
@dataclass(frozen=True, eq=False, slots=True)
class Expm1:
    """p = e^r - 1 in float64, to twice the digits, and n of x = n ln 2 + r: what exp(x) - 1 and
    exp(x) have in common."""

    p: Two
    n: Bits

    @classmethod
    def of(cls, x: Real) -> Expm1:
        """That of x."""
        r, n = _reduce(x.clamp(*RANGE[64]))
        return cls(expm1_near_0(r), n)

    def twofold(self) -> tuple[Two, Bits]:
        """y and k where exp(x) - 1 = y 2^k."""
        k = self.n.less(-100).choose(self.n.at.int(-100), self.n)
        small = k.less(100).choose(k, 100)
        s = total(1.0 - power_of_two(k.at.int(0) - small), self.p.hi)
        return quick_total(s.hi, s.lo + self.p.lo), k

    def exp(self) -> Real:
        """exp(x)."""
        return scale(1.0 + self.p.value(), self.n)


def expm1_twofold(x: Real) -> tuple[Two, Bits]:
    """y and k where exp(x) - 1 = y 2^k (float64)."""
    return Expm1.of(x).twofold()


def exp(x: Real) -> Real:
    """e^x. Beside exp(x) - 1 of float64, most of it has been computed."""
    known: Expm1 | None = x.at.shared_value("expm1", x)
    return scale(*exp_parts(x)) if known is None else known.exp()


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
    parts = x.at.shared("expm1", x, lambda: Expm1.of(x))
    y, k = parts.twofold()
    return scale(y.value(), k).copysign(x)


def expm1_wide(x: Real) -> Real:
    """e^x - 1 in float64 for a result in float32."""
    r, n = _reduce(x.clamp(-120.0, 200.0))
    p, power = (r.hi * r.hi).multiply_add(polynomial(r.hi, c.EXP_F64), r.hi), power_of_two(n)
    return p.multiply_add(power, power - 1.0)


def expm1_f32(x: Real) -> Real:
    """`expm1` of float32, computed in float64."""
    return expm1_wide(x.widened()).narrowed().copysign(x)


def exp_diff(a: Real, b: Real) -> Real:
    """e^(a - b), and 0 where a is -inf."""
    return a.same(-math.inf).where(a.at.real(0.0), exp(a - b))


def exp_product(a: Real, b: Real) -> Real:
    """e^(a b), the product to twice the digits."""
    p = product(a, b)
    if a.at.bits == 64:
        y, k = exp_twofold(p)
        return scale(y.value(), k)
    low, high = RANGE[32]
    lo = ((p.hi > low) & (p.hi < high)).where(p.lo, 0.0)
    r, k = reduced_f32(-p.hi.clamp(low, high), -lo)
    return scale(exp_near_0(r), k)
