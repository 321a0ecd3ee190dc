"""erfinv, and the normal distribution's quantiles (float64).

Far from the middle, x with erfc(x) = q is a polynomial of sqrt(-log q), right to about 29 bits, and
one step of Halley's method on erfc, which is known to twice the digits: the step cubes the error.
"""

from __future__ import annotations

import math

from chainrule.compile.mathlib.error import scaled_erfc
from chainrule.compile.mathlib.evaluation import polynomial, scale
from chainrule.compile.mathlib.exponential import exp_twofold
from chainrule.compile.mathlib.logarithm import log_plain, split
from chainrule.compile.mathlib.reals import Real
from chainrule.compile.mathlib.twofold import Two, constant, exactly, product, quick_total
from chainrule.ops import special_coefficients as s


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
