"""erfinv, and the normal distribution's quantiles (float64).

Far from the middle, x with erfc(x) = q is a polynomial of sqrt(-log q), right to about 29 bits. One
step of Halley's method follows on erfc, which is known to twice the digits: the step cubes the
error.
"""

from __future__ import annotations

import math

from chainrule.compile.mathlib.double_floats import (
    Two,
    constant,
    exactly,
    pick,
    product,
    quick_total,
)
from chainrule.compile.mathlib.error import erfc_parts, normal, scaled_erfc
from chainrule.compile.mathlib.evaluation import polynomial, power_of_two, scale
from chainrule.compile.mathlib.exponential import exp_twofold
from chainrule.compile.mathlib.logarithm import (
    log_plain,
    log_twofold,
    split,
    split_past_1,
    split_twofold,
)
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.ops.values import coefficients as c
from chainrule.ops.values import special_coefficients as s


def _middle(y: Real) -> Two:
    """erfinv(y), |y| <= 1 / 2."""
    return quick_total(y, y * polynomial(y * y, s.ERFINV_NEAR))


def _tail(q: Real) -> Two:
    """x > 0 with erfc(x) = q, 0 < q <= 1 / 2.

    By (erfc(x) - q) / erfc'(x) = -d, where d = sqrt(pi) / 2 (erfcx(x) - q exp(x^2)), and
    erfc'' / erfc' = -2 x, Halley's step is d / (1 - x d).
    """
    t = (-log_plain(*split(q))).intrinsic("sqrt")
    x = t * polynomial((t - 2.0) / (t + 2.0), s.ERFC_INVERSE)
    e, k = exp_twofold(-product(x, x))
    known = exactly(scale(q, q.at.int(0) - k)) / e
    d = (scaled_erfc(exactly(x)) - known).value() * s.HALF_ROOT_PI[0]
    return quick_total(x, d / (1.0 - x * d))


def erfinv(y: Real) -> Real:
    """The x whose erf is y; infinite at 1 and -1, NaN beyond; 0 at -0, as in SciPy."""
    a = abs(y)
    x = (a < 0.5).where(_middle(a).value(), _tail(1.0 - a).value())
    end = a.same(1.0).where(y.lift(math.inf), math.nan)
    x = (a < 1.0).where(x, end)
    return (y < 0.0).where(-x, x)


def ndtri(p: Real) -> Real:
    """The x below which a normal number is with probability p; infinite at 0 and 1, NaN beyond."""
    low = p < 0.5
    q = low.where(p, 1.0 - p)
    root_2 = constant(p, *s.ROOT_2)
    near = (_middle(1.0 - 2.0 * q) * root_2).value()
    x = (q < 0.25).where((_tail(2.0 * q) * root_2).value(), near)
    end = q.same(0.0).where(p.lift(math.inf), math.nan)
    return (q > 0.0).where(x, end).copysign(low.where(p.lift(-1.0), 1.0))


# --- erfcx and the logarithm of ndtr --------------------------------------------------------------

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
    """log(erfc(-x / sqrt(2)) / 2), one logarithm for three ways to its argument.

    Left of -1/2 -x^2 / 2 + log(erfcx / 2), both parts negative; to 1/2 log((1 + erf) / 2); beyond
    log(1 - t), t = erfc(x / sqrt(2)) / 2, and -t where that is below an ulp of 1.
    """
    a = abs(x)
    middle = a < 0.5
    left = (x < 0.0) & ~middle
    half = product(a * 0.5, a)
    f, k = split_twofold(_erfcx(constant(x, *c.SQRT_HALF) * a))
    y, n = _half_erfc(a.clamp(0.0, 39.5))
    erf = _erf(x.clamp(-0.5, 0.5) * c.SQRT_HALF[0])
    g, m = split_past_1(pick(middle, erf, -normal(y, n)))
    log = log_twofold(pick(left, f, g), left.choose(k - 1, middle.choose(m - 1, m)))
    far_left = half.hi.same(math.inf).where(-half.hi, (log - half).value())
    right = (a < 8.5).where(log.value(), -scale(y.value(), n))
    return left.where(far_left, x.is_nan().where(x, right))


def _half_erfc(a: Real) -> tuple[Two, Bits]:
    """y and k, erfc(a / sqrt(2)) / 2 = y 2^k."""
    y, k = erfc_parts(constant(a, *c.SQRT_HALF) * a, product(a * 0.5, a))
    return y.times(0.5), k
