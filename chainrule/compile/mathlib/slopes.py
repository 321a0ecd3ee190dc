"""Derivatives of gates and of hyperbolic functions, which cancel or vanish far out.

All are fractions of e, an exponential of at most 1. Its power of two is applied last, so that small
results underflow gradually and are rounded once. Divisors are known to twice the digits; in float64
the quotient is corrected by what they leave.

Notation: `v` the exponent, e = exp(-v), v >= 0.
"""

from __future__ import annotations

from chainrule.compile.mathlib.double_floats import Two, exactly, over, product, quick_total, total
from chainrule.compile.mathlib.evaluation import scale
from chainrule.compile.mathlib.exponential import (
    Exponential,
    exp,
    exp_near_0,
)
from chainrule.compile.mathlib.gates import (
    GATE_END,
    cubic,
    cubic_exponential,
    gate_of_difference,
    logistic_gate,
)
from chainrule.compile.mathlib.gates_f32 import cubic_reduced_f32, cubic_slope
from chainrule.compile.mathlib.hyperbolic import TanhF32, tanh
from chainrule.compile.mathlib.logarithm import at_ends, log_twofold, split
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.ops.values.constants import GATE_UP_BITS


def _over_square(y: Real, e: Real) -> Real:
    """y / (1 + e)^2."""
    if y.at.bits == 32:
        return y / e.fma(e + 2.0, 1.0)
    s = quick_total(e.lift(1.0), e)
    square = product(s.hi, s.hi)
    return over(y, Two(square.hi, (s.hi + s.hi).fma(s.lo, square.lo)))


def _density(e: Exponential, factor: float = 1.0) -> Real:
    return _over_square(e.most, e.value()) * (e.rest * factor)


def logistic_density(x: Real) -> Real:
    """e / (1 + e)^2, v = |x|: the derivative of the logistic function. In float32 the
    quotient of that function, if it is beside it, serves both."""
    if x.at.bits == 64 or x.at.shared_value("gate", x) is None:
        return _density(logistic_gate(x).e)
    q = logistic_gate(x).lesser
    return (-q).fma(q, q)


def sech_square(x: Real) -> Real:
    """4 e / (1 + e)^2, v = 2 |x|: the derivative of tanh."""
    y: TanhF32 | None = x.at.shared_value("tanh", x)
    return _density(Exponential.minus(abs(x + x)), 4.0) if y is None else y.slope()


def sech(x: Real) -> Real:
    """2 e / (1 + e^2), v = |x|."""
    e = Exponential.minus(abs(x))
    square = product(e.value(), e.value())
    s = quick_total(x.lift(1.0), square.hi)
    return over(e.most, Two(s.hi, s.lo + square.lo)) * (e.rest * 2.0)


def sigmoid_diff(a: Real, b: Real) -> Real:
    """1 / (1 + e^(b - a)), the difference to twice the digits (float64); 0 where a is -inf."""
    return _no_less(a, gate_of_difference(total(a, -b)))


def sigmoid_diff_f32(a: Real, b: Real) -> Real:
    """`sigmoid_diff` of float32, computed in float64."""
    d = a.widened() - b.widened()
    e = exp(-abs(d))
    y = (d < 0.0).where(e, 1.0) / (1.0 + e)
    return _no_less(a, y.narrowed())


def _no_less(a: Real, y: Real) -> Real:
    return a.same(float("-inf")).where(a.lift(0.0), y)


# --- The gate of GELU's tanh form -----------------------------------------------------------------


def _gate_parts(x: Real) -> tuple[Real, Bits, Real]:
    """y and k, e = y 2^k, v the exponent of the gate of GELU's tanh form; and v'."""
    limited = x.clamp(-GATE_END[x.at.bits], GATE_END[x.at.bits])
    if x.at.bits == 64:
        return *cubic_exponential(x), cubic_slope(limited)
    r, k = cubic_reduced_f32(abs(limited))
    return exp_near_0(r), k, cubic_slope(limited)


def gelu_gate_slope(x: Real) -> Real:
    """The derivative of `gelu_gate`."""
    y, k, slope = _gate_parts(x)
    e = Exponential.at_least(y, k)
    return _over_square(e.most * slope, e.value()) * e.rest


def gelu_gate_density(x: Real) -> Real:
    """e / (1 + e)^2, times `GATE_UP`."""
    y, k, _ = _gate_parts(x)
    least = 30 - 2 * y.at.bias  # as far as `scale` goes: there it is 0
    far = k.less(least).choose(k.at.int(least), k)
    return scale(_over_square(y, Exponential.at_least(y, k).value()), far + GATE_UP_BITS)


def gelu_gate_tanh(x: Real) -> Real:
    """tanh(v / 2) (float64)."""
    y = tanh(cubic(x.clamp(-GATE_END[64], GATE_END[64])).value() * 0.5)
    return y.copysign(x)


# --- -x log(x) -----------------------------------------------------------------------------------


def entr_slope(x: Real) -> Real:
    """-log(x) - 1 (float64)."""
    y = log_twofold(*_exact_split(x)) + x.lift(1.0)
    return -at_ends(x, y.value())


def _exact_split(x: Real) -> tuple[Two, Bits]:
    f, k = split(x)
    return exactly(f), k
