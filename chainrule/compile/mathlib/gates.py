"""Gates: the logistic function, and x times it.

x sigmoid(u) = x / (1 + e^-u). In float32 e^-u = 2^k (1 + p) makes the divisor one multiply-add. Its
rounding error, as large as all others together, is the remainder of another; the quotient is
corrected by it. Where e^-u would overflow the gate is e^u: a way that few numbers take.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from chainrule.compile.mathlib.evaluation import nearest, power_of_two, scale
from chainrule.compile.mathlib.exponential import (
    EXACT_LN2,
    RANGE,
    Exponential,
    exp_near_0,
    exp_twofold,
    expm1_near_0_f32,
    halves,
    reduced_f32,
)
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.compile.mathlib.twofold import (
    Two,
    constant,
    exactly,
    over,
    pick,
    product,
    quick_total,
)
from chainrule.ops.values import coefficients as c


def sigmoid(x: Real) -> Real:
    """q on the left, 1 - q on the right, q = e / (1 + e), e = e^-|x|: its derivative is a function
    of q, too."""
    q = x.at.shared("sigmoid", x, lambda: _lesser(abs(x)))
    return (x < 0.0).where(q, 1.0 - q)


def _lesser(v: Real) -> Real:
    """e / (1 + e), e = e^-v, v >= 0."""
    e = Exponential.minus(v)
    below = quick_total(v.lift(1.0), e.value())
    if v.at.bits == 64:
        return over(e.most, below) * e.rest
    q = e.most / below.hi
    return (-q).fma(below.lo, q) * e.rest


def silu(x: Real) -> Real:
    """x sigmoid(x)."""
    if x.at.bits == 64:
        return _gate(x, exactly(x))
    return _gated_f32(x, reduced_f32, 80.0, -160.0)


def gelu_tanh(x: Real) -> Real:
    """x (1 + tanh(u)) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    if x.at.bits == 32:
        return _gated_f32(x, cubic_reduced_f32, 10.0, -12.5)
    return _gate(x, cubic(x))


def gelu_gate(x: Real) -> Real:
    """sigmoid(2 u) of `gelu_tanh`: beside it, most of this has been computed."""
    if x.at.bits == 64:
        return gate(cubic(x))

    def deep() -> Real:
        r, k = cubic_reduced_f32((x.lift(-12.5) > x).where(x.lift(-12.5), x))
        return scale(exp_near_0(-r), x.at.int(0) - k)

    one = x.lift(1.0)
    y = _gate_f32(one, *cubic_reduced_f32(x))
    return _or_far_left(x, 10.0, deep, (x > 10.0).where(one, y))


# --- float32 -------------------------------------------------------------------------------------


_LINEAR = halves(2 * c.SQRT_2_PI[0], 19)
"""From it to any w up to 16 the difference is exact."""
_CUBIC = halves(2 * c.SQRT_2_PI[0] * c.GELU_CUBIC[0], 27)


def cubic_reduced_f32(x: Real) -> tuple[Real, Bits]:
    """`reduced_f32` of u = x w, w = 2 sqrt(2 / pi) (1 + 0.044715 x^2), |x| <= 14.1.

    A sigmoid far to the left multiplies the error of u by u: w is known to twice the digits.
    """
    z = x * x
    hi = z.fma(_CUBIC[0], _LINEAR[0])
    small = x.fma(x, -z).fma(_CUBIC[0], z.fma(_CUBIC[1], _LINEAR[1]))
    lo = z.fma(_CUBIC[0], _LINEAR[0] - hi) + small
    n, k = nearest(x * hi, -c.INV_LN2[0])
    unit, rest = EXACT_LN2[32]
    r = x.fma(-hi, -(n * unit))
    return r + x.fma(-lo, n * -rest), k


def _gate_f32(x: Real, r: Real, k: Bits) -> Real:
    """x / (1 + 2^k e^r), |k| <= 126."""
    power = power_of_two(k)
    p = expm1_near_0_f32(r)
    below = power.fma(p, power + 1.0)
    more = power.fma(p, (power - below) + 1.0)
    one = 1.0 / below
    y = x * one
    rest = (-y).fma(more, (-y).fma(below, x))
    return rest.fma(one, y)


def _gated_f32(
    x: Real, reduced: Callable[[Real], tuple[Real, Bits]], far: float, low: float
) -> Real:
    """x sigmoid(u), given what reduces u: x beyond `far`, x e^u below -far, 0 below `low`."""

    def deep() -> Real:
        limited = (x.lift(low) > x).where(x.lift(low), x)
        r, k = reduced(limited)
        return _finite(x, scale(limited * exp_near_0(-r), x.at.int(0) - k))

    y = _gate_f32(x, *reduced(x)).copysign(x)
    return _or_far_left(x, far, deep, (x > far).where(x, y))


def _or_far_left(x: Real, far: float, deep: Callable[[], Real], y: Real) -> Real:
    """y, but `deep()` where x is below -far, or NaN."""
    return x.at.rarely(~(x >= -far), deep, y)


def _finite(x: Real, y: Real) -> Real:
    """y, but NaN at -inf, as inf times 0 is."""
    return (abs(x) < math.inf).where(y, x.lift(math.nan))


# --- float64 -------------------------------------------------------------------------------------


def cubic(x: Real) -> Two:
    """2 u of `gelu_tanh`."""
    factor = product(x, x) * constant(x, *c.GELU_CUBIC) + x.at.real(1.0)
    u = (factor * (constant(x, *c.SQRT_2_PI).times(2.0))) * x
    plain = 2.0 * c.SQRT_2_PI[0] * x
    far = abs(x) < 1e4
    return Two(far.where(u.hi, plain), far.where(u.lo, 0.0))


def _gate(x: Real, u: Two) -> Real:
    """x sigmoid(u)."""
    finite = abs(x) < math.inf
    floor = RANGE[64][0]
    limited = (x.lift(floor) > x).where(x.lift(floor), x)
    y = gate(u, limited).copysign(x)
    return finite.where(y, x * (x > 0.0).where(x.at.real(1.0), 0.0))


def gate(u: Two, x: Real | None = None) -> Real:
    """sigmoid(u), times x if given (float64)."""
    negative = u.hi < 0.0
    e, k = exp_twofold(pick(negative, u, -u))
    down = k.less(-300).choose(u.hi.at.int(-300), k)
    one = exactly(u.hi.lift(1.0))
    y = pick(negative, e, one) / (one + e.times(power_of_two(down)))
    if x is not None:
        y = y * x
    return scale(y.value(), negative.choose(k, 0))
