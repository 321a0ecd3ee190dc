"""Derivatives of gates and of hyperbolic functions, which cancel or vanish far out.

All are fractions of e, an exponential of at most 1. Its power of two is applied last, so that small
results underflow gradually and are rounded once. Divisors are known to twice the digits; in float64
the quotient is corrected by what they leave.

Notation: `v` the exponent, e = exp(-v), v >= 0.
"""

from __future__ import annotations

import math

from chainrule.compile.mathlib.evaluation import scale
from chainrule.compile.mathlib.exponential import (
    LEAST,
    Exponential,
    exp,
    exp_near_0,
    exp_twofold,
)
from chainrule.compile.mathlib.gates import cubic, cubic_reduced_f32, gate
from chainrule.compile.mathlib.hyperbolic import TanhF32, tanh
from chainrule.compile.mathlib.logarithm import at_ends, log_twofold, split
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.compile.mathlib.twofold import Two, exactly, over, product, quick_total, total
from chainrule.ops.values import coefficients as c
from chainrule.ops.values.constants import GATE_UP_BITS

GATE_END = {32: 14.1, 64: 30.0}
"""Beyond it the gate of GELU's tanh form is 0 or 1, and the root of its slope 0."""
DEEP = -2000.0
"""Below all exponents that `GATE_END` leaves."""


def _over_square(y: Real, e: Real) -> Real:
    """y / (1 + e)^2."""
    if y.at.bits == 32:
        return y / e.fma(e + 2.0, 1.0)
    s = quick_total(e.lift(1.0), e)
    square = product(s.hi, s.hi)
    return over(y, Two(square.hi, (s.hi + s.hi).fma(s.lo, square.lo)))


def _density(v: Real, factor: float = 1.0) -> Real:
    e = Exponential.minus(v)
    return _over_square(e.most, e.value()) * (e.rest * factor)


def logistic_density(x: Real) -> Real:
    """e / (1 + e)^2, v = |x|: the derivative of the logistic function."""
    q: Real | None = x.at.shared_value("sigmoid", x)
    return _density(abs(x)) if q is None or x.at.bits == 64 else (-q).fma(q, q)


def sech_square(x: Real) -> Real:
    """4 e / (1 + e)^2, v = 2 |x|: the derivative of tanh."""
    y: TanhF32 | None = x.at.shared_value("tanh", x)
    return _density(abs(x + x), 4.0) if y is None else y.slope()


def sech(x: Real) -> Real:
    """2 e / (1 + e^2), v = |x|."""
    e = Exponential.minus(abs(x))
    square = product(e.value(), e.value())
    s = quick_total(x.lift(1.0), square.hi)
    return over(e.most, Two(s.hi, s.lo + square.lo)) * (e.rest * 2.0)


def sigmoid_diff(a: Real, b: Real) -> Real:
    """1 / (1 + e^(b - a)), the difference to twice the digits (float64); 0 where a is -inf."""
    return _no_less(a, gate(total(a, -b)))


def sigmoid_diff_f32(a: Real, b: Real) -> Real:
    """`sigmoid_diff` of float32, computed in float64."""
    d = a.widened() - b.widened()
    e = exp(-abs(d))
    y = (d < 0.0).where(e, 1.0) / (1.0 + e)
    return _no_less(a, y.narrowed())


def _no_less(a: Real, y: Real) -> Real:
    return a.same(float("-inf")).where(a.lift(0.0), y)


# --- x sigmoid(v) --------------------------------------------------------------------------------


def _gated_slope(x: Real, e: Exponential, slope: Real | None = None) -> Real:
    """m = (1 + e - |x| v') e / (1 + e)^2 on the left, 1 - m on the right: the derivative of x
    sigmoid(v)."""
    value, a = e.value(), abs(x)
    top = (1.0 - (a if slope is None else a * slope)) + value
    m = _over_square(e.most * top, value) * e.rest
    return _from_left(x, m)


def _from_left(x: Real, m: Real) -> Real:
    """m where x is negative, elsewhere 1 - m; what vanishes is 0, not -0."""
    return (x < 0.0).where(m + 0.0, 1.0 - m)


def silu_slope(x: Real) -> Real:
    """The derivative of x sigmoid(x)."""
    most = -LEAST[x.at.bits]
    return _gated_slope(x.clamp(-most, most), Exponential.minus(abs(x)))


def _gate_parts(x: Real) -> tuple[Real, Real, Bits, Real]:
    """x where the gate of GELU's tanh form is not 0 or 1; y and k, e = y 2^k; v'."""
    end = GATE_END[x.at.bits]
    x = x.clamp(-end, end)
    if x.at.bits == 32:
        r, k = cubic_reduced_f32(abs(x))
        y = exp_near_0(r)
    else:
        both, k = exp_twofold(-cubic(abs(x)), DEEP)
        y = both.value()
    slope = (x * x).fma(6.0 * c.SQRT_2_PI[0] * c.GELU_CUBIC[0], 2.0 * c.SQRT_2_PI[0])
    return x, y, k, slope


def _limit(y: Real, k: Bits) -> Exponential:
    """y 2^k, or something as good as 0."""
    least = round(LEAST[y.at.bits] / math.log(2))
    return Exponential.of(y, k.less(least).choose(k.at.int(least), k))


def gelu_gate_slope(x: Real) -> Real:
    """The derivative of `gelu_gate`."""
    _, y, k, slope = _gate_parts(x)
    e = _limit(y, k)
    return _over_square(e.most * slope, e.value()) * e.rest


def gelu_gate_density(x: Real) -> Real:
    """e / (1 + e)^2, times `GATE_UP`."""
    _, y, k, _ = _gate_parts(x)
    least = 30 - 2 * y.at.bias  # as far as `scale` goes: there it is 0
    far = k.less(least).choose(k.at.int(least), k)
    return scale(_over_square(y, _limit(y, k).value()), far + GATE_UP_BITS)


def gelu_gate_tanh(x: Real) -> Real:
    """tanh(v / 2) (float64)."""
    y = tanh(cubic(x.clamp(-GATE_END[64], GATE_END[64])).value() * 0.5)
    return y.copysign(x)


def gelu_tanh_slope(x: Real) -> Real:
    """The derivative of `gelu_tanh`."""
    x, y, k, slope = _gate_parts(x)
    return _gated_slope(x, _limit(y, k), slope)


# --- -x log(x) -----------------------------------------------------------------------------------


def entr_slope(x: Real) -> Real:
    """-log(x) - 1 (float64)."""
    y = log_twofold(*_exact_split(x)) + x.lift(1.0)
    return -at_ends(x, y.value())


def _exact_split(x: Real) -> tuple[Two, Bits]:
    f, k = split(x)
    return exactly(f), k
