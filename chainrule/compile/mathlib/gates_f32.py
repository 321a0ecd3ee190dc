"""x sigmoid(u) and its derivative in float32, u = x or the cubic of GELU's tanh form.

x sigmoid(u) = x / (1 + e^-u). e^-u = 2^k (1 + p) makes the divisor one multiply-add. Its rounding
error, as large as all others together, is the remainder of another; the quotient is corrected by
it. Where e^-u would overflow, which is rare, the gate is e^u.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from chainrule.compile.mathlib.double_floats import Two
from chainrule.compile.mathlib.evaluation import nearest, power_of_two, scale
from chainrule.compile.mathlib.exponential import (
    EXACT_LN2,
    exp_near_0,
    expm1_near_0_f32,
    halves,
    reduced_f32,
)
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.ops.values import coefficients as c

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


@final
@dataclass(frozen=True, eq=False, slots=True)
class GateF32:
    """1 / (1 + e), e = e^-u of float32, |u| at most 80; `below` is 1 + e to twice the digits."""

    e: Real
    below: Two
    inverse: Real

    @classmethod
    def of(cls, r: Real, k: Bits) -> GateF32:
        """That of u which is reduced to r and k, e = 2^k e^r."""
        power, p = power_of_two(k), expm1_near_0_f32(r)
        hi = power.fma(p, power + 1.0)
        lo = power.fma(p, (power - hi) + 1.0)
        return cls(power.fma(p, power), Two(hi, lo), 1.0 / hi)

    def times(self, x: Real) -> Real:
        """x / (1 + e), rounded little more than once."""
        y = x * self.inverse
        rest = (-y).fma(self.below.lo, (-y).fma(self.below.hi, x))
        return rest.fma(self.inverse, y)

    def slope(self, a: Real) -> Real:
        """The derivative of x / (1 + e), a = x u'."""
        other = (self.e > 1.0).where(1.0 - self.inverse, self.e * self.inverse)
        return self.inverse * a.fma(other, 1.0)


@final
@dataclass(frozen=True)
class GatedF32:
    """x sigmoid(u) of float32, u a function of x, and its derivative."""

    name: str
    reduced: Callable[[Real], tuple[Real, Bits]]
    """u to r and k, e^-u = 2^k e^r."""
    slope_of_u: Callable[[Real], Real]
    far: float
    """Beyond it the gate is 1; below -far it is e^u."""
    low: float
    """Below it the gate is 0."""

    def value(self, x: Real) -> Real:
        """x sigmoid(u)."""

        def deep() -> Real:
            limited, y, k = self._deep(x)
            y = scale(limited * y, k)
            return (abs(x) < math.inf).where(y, x.lift(math.nan))

        return self._whole(x, x, lambda gate: gate.times(x).copysign(x), deep)

    def gate(self, x: Real) -> Real:
        """sigmoid(u)."""

        def deep() -> Real:
            _, y, k = self._deep(x)
            return scale(y, k)

        one = x.lift(1.0)
        return self._whole(x, one, lambda gate: gate.times(one), deep)

    def slope(self, x: Real) -> Real:
        """The derivative of x sigmoid(u)."""

        def deep() -> Real:
            limited, y, k = self._deep(x)
            return scale(limited.fma(self.slope_of_u(limited), 1.0) * y, k) + 0.0

        a = x * self.slope_of_u(x)
        return self._whole(x, x.lift(1.0), lambda gate: gate.slope(a), deep)

    def _whole(
        self, x: Real, right: Real, near: Callable[[GateF32], Real], deep: Callable[[], Real]
    ) -> Real:
        """What is near 0, `right` far to the right, and `deep()` far to the left, or of NaN."""
        gate = x.at.shared(self.name, x, lambda: GateF32.of(*self.reduced(x)))
        y = (x > self.far).where(right, near(gate))
        return x.at.rarely(~(x >= -self.far), deep, y)

    def _deep(self, x: Real) -> tuple[Real, Real, Bits]:
        """x, not below `low`; and e^u as a number near 1 and a power of two."""
        limited = (x.lift(self.low) > x).where(x.lift(self.low), x)
        r, k = self.reduced(limited)
        return limited, exp_near_0(-r), x.at.int(0) - k


def cubic_slope(x: Real) -> Real:
    """w' x + w, the derivative of u = x w; in float64, too."""
    return (x * x).fma(6.0 * c.SQRT_2_PI[0] * c.GELU_CUBIC[0], 2.0 * c.SQRT_2_PI[0])


SILU = GatedF32("silu", reduced_f32, lambda x: x.lift(1.0), 80.0, -160.0)
GELU_TANH = GatedF32("gelu_tanh", cubic_reduced_f32, cubic_slope, 10.0, -12.5)
