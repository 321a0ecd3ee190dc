"""The error function, and GELU by it.

erfc(x) = exp(-x^2) p(t) / (1 + 2 x) with t = (x - 4) / (x + 4), one polynomial for all x >= 0
(Shepherd & Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, Math. Comp. 36, 1981);
x^2 to twice the digits, because exp multiplies its error by x^2. In float32 ndtr and GELU have a
polynomial of their own (`_NormalTail`), which saves a division.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from chainrule.compile.mathlib.double_floats import (
    Two,
    constant,
    exactly,
    pick,
    product,
    quick_total,
    total,
)
from chainrule.compile.mathlib.evaluation import polynomial, power_of_two, scale
from chainrule.compile.mathlib.exponential import (
    exp_parts,
    exp_twofold,
    expm1_near_0_f32,
    reduced_f32,
)
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.ops.values import coefficients as c
from chainrule.ops.values import special_coefficients as s

NORMAL_MIDDLE = 4.185546875
"""m of `c.NORMAL_TAIL_F32`."""


def scaled_erfc(x: Two) -> Two:
    """exp(x^2) erfc(x), 0 <= x <= 28."""
    t = (x.hi - 4.0) / (x.hi + 4.0)
    p = quick_total(x.hi.lift(c.ERFC_F64[0]), t * polynomial(t, c.ERFC_F64[1:]))
    below = total(x.hi.lift(1.0), x.hi + x.hi)
    return p / Two(below.hi, below.lo + (x.lo + x.lo))


def erfc_parts(x: Two, square: Two) -> tuple[Two, Bits]:
    """y and k, erfc(x) = y 2^k, 0 <= x <= 28; x^2 is given."""
    e, k = exp_twofold(-square)
    return e * scaled_erfc(x), k


def normal(y: Two, k: Bits) -> Two:
    """y 2^k, or something below 1e-90."""
    return y.times(power_of_two(k.less(-300).choose(k.at.int(-300), k)))


def erfc(x: Real) -> Real:
    """1 - erf(x), without cancellation (float64)."""
    a = abs(x).clamp(0.0, 28.0)
    y, k = erfc_parts(exactly(a), product(a, a))
    far = (x < 0.0).where((exactly(x.lift(2.0)) - normal(y, k)).value(), scale(y.value(), k))
    near = exactly(x.lift(1.0)) - quick_total(x, x * polynomial(x * x, c.ERF_F64))
    return (a < 0.5).where(near.value(), far)


def erf(x: Real) -> Real:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x (float64)."""
    a = abs(x).clamp(0.0, 6.0)
    far = (exactly(x.lift(1.0)) - normal(*erfc_parts(exactly(a), product(a, a)))).value()
    near = a.fma(polynomial(a * a, c.ERF_F64), a)
    return (a < 1.0).where(near, far).copysign(x)


def erf_f32(x: Real) -> Real:
    """`erf` of float32."""
    a = abs(x).clamp(0.0, 4.0)
    z = a * a
    near = x.fma(polynomial(z, c.ERF_F32), x)
    y, k = exp_parts(-z)
    t = (a - 4.0) / (a + 4.0)
    scaled = polynomial(t, c.ERFC_F32) / a.fma(2.0, 1.0)
    far = (-y * power_of_two(k)).fma(scaled, 1.0)
    return (a < 1.0).where(near, far.copysign(x))


def erfc_f32(x: Real) -> Real:
    """`erfc` of float32."""
    a = abs(x).clamp(0.0, 10.5)
    twice = a + a
    below = twice + 1.0
    square = product(a, a)
    hi, lo, k = _tail_f32(a, square, Two(below, (1.0 - below) + twice))
    tail = scale(hi + lo, k)
    near = (-x).fma(polynomial(x * x, c.ERF_F32), 1.0 - x)
    return (a < 0.5).where(near, (x < 0.0).where(2.0 - tail, tail))


def _tail_f32(x: Real, square: Two, below: Two) -> tuple[Real, Real, Bits]:
    """Two parts of y, and k, where erfc(x) = y 2^k, 0 <= x <= 10.5.

    x^2 and 1 + 2 x are given to twice the digits: y is right to little more than half an ulp.
    """
    r, k = reduced_f32(square.hi, square.lo)
    e = quick_total(x.lift(1.0), expm1_near_0_f32(r))
    t = (x - 4.0) / (x + 4.0)
    p = quick_total(x.lift(c.ERFC_F32[0]), t * polynomial(t, c.ERFC_F32[1:]))
    top = product(e.hi, p.hi)
    more = e.hi.fma(p.lo, e.lo.fma(p.hi, top.lo))
    one = 1.0 / below.hi
    y = top.hi * one
    rest = (-y).fma(below.hi, top.hi) + (-y).fma(below.lo, more)
    return y, rest * one, k


def gelu_erf(x: Real) -> Real:
    """x erfc(-x / sqrt(2)) / 2, NaN at -inf, as inf times 0 is (float64)."""
    a = abs(x).clamp(0.0, 39.0)
    y, k = erfc_parts(constant(x, *c.SQRT_HALF) * a, product(a, a).times(0.5))
    half = y.times(0.5)
    negative = x < 0.0
    share = pick(negative, half, exactly(x.lift(1.0)) - normal(half, k))
    limited = (x.lift(-39.0) > x).where(x.lift(-39.0), x)
    far = scale((share * limited).value(), negative.choose(k, 0))
    z = x * c.SQRT_HALF[0]
    near = (quick_total(z, z * polynomial(z * z, c.ERF_F64)) + x.lift(1.0)) * (0.5 * x)
    return _finite(x, (a < 0.7).where(near.value(), far).copysign(x))


def _finite(x: Real, y: Real) -> Real:
    return (abs(x) < math.inf).where(y, x * (x > 0.0).where(x.lift(1.0), 0.0))


@final
@dataclass(frozen=True, eq=False, slots=True)
class _NormalTail:
    """ndtr(-x) = p w (1 + e) 2^k of float32, 0 <= x <= 15; exp(-x^2 / 2) is (1 + e) 2^k.

    w = 2 m / (x + m), and p is a polynomial of 1 - w: one division is all that it takes.
    """

    p: Two
    w: Two
    e: Real
    k: Bits

    @classmethod
    def of(cls, x: Real) -> _NormalTail:
        """That of x."""
        half = product(x, x * 0.5)
        r, k = reduced_f32(half.hi, half.lo)
        m = NORMAL_MIDDLE
        below = x + m
        w = 2 * m / below
        rest = w.fma(x - (below - m), w.fma(below, -2 * m))
        low = w * rest * (-0.5 / m)
        t = (1.0 - w) - low
        first, more = x.lift(c.NORMAL_TAIL_F32[0]), polynomial(t, c.NORMAL_TAIL_F32[1:])
        p = t.fma(more, first)
        return cls(Two(p, t.fma(more, first - p)), Two(w, low), expm1_near_0_f32(r), k)

    @classmethod
    def limited(cls, x: Real, most: float) -> tuple[_NormalTail, Real]:
        """That of |x|, and |x|, which is `most` where it is more."""
        a = abs(x)
        a = (x.lift(most) < a).where(x.lift(most), a)
        return cls.of(a), a

    def scaled(self) -> Real:
        """p w, a little worse than rounded."""
        return self.p.hi.fma(self.w.lo, self.p.hi * self.w.hi)

    def times(self, factor: Real) -> Real:
        """ndtr(-x) times a factor, nearly rounded."""
        p, w = self.p, self.w
        y = product(p.hi, w.hi)
        rest = p.hi.fma(w.lo, w.hi.fma(p.lo, y.lo))
        hi = y.hi * factor
        lo = rest.fma(factor, y.hi.fma(factor, -hi))
        return scale(hi + hi.fma(self.e, lo), self.k)


def gelu_erf_f32(x: Real) -> Real:
    """`gelu_erf` of float32; NaN at -inf, as inf times 0 is."""
    tail, a = _NormalTail.limited(x, 14.5)
    far = tail.times(a)
    return (x < 0.0).where(x * 0.0 - far, x - far)


def ndtr(x: Real) -> Real:
    """erfc(-x / sqrt(2)) / 2 (float64)."""
    a = abs(x).clamp(0.0, 39.0)
    y, k = erfc_parts(constant(x, *c.SQRT_HALF) * a, product(a, a).times(0.5))
    half = y.times(0.5)
    return (x < 0.0).where(scale(half.value(), k), _less(half, k))


def ndtr_f32(x: Real) -> Real:
    """`ndtr` of float32."""
    tail = _NormalTail.limited(x, 14.5)[0].times(x.lift(1.0))
    return (x < 0.0).where(tail, 1.0 - tail)


def _less(y: Two, k: Bits) -> Real:
    """1 - y 2^k."""
    return (exactly(y.hi.lift(1.0)) - normal(y, k)).value()


def gelu_erf_slope(x: Real) -> Real:
    """The derivative of `gelu_erf`: e (erfcx(|x| / sqrt(2)) / 2 - |x| / sqrt(2 pi)) on the left,
    e = exp(-x^2 / 2), 1 less that on the right (float64)."""
    a = abs(x).clamp(0.0, 39.0)
    e, k = exp_twofold(product(a, a).times(-0.5))
    c_ = scaled_erfc(constant(x, *c.SQRT_HALF) * a).times(0.5)
    y = e * (c_ - constant(x, *s.INV_ROOT_2_PI) * a)
    return (x < 0.0).where(scale(y.value(), k) + 0.0, _less(y, k))  # 0 far out, not -0


def gelu_erf_slope_f32(x: Real) -> Real:
    """`gelu_erf_slope` of float32."""
    tail, a = _NormalTail.limited(x, 15.0)
    part = (-a).fma(s.INV_ROOT_2_PI[0], tail.scaled())
    y = scale(tail.e.fma(part, part), tail.k)
    return (x < 0.0).where(y + 0.0, 1.0 - y)
