"""Numbers as unevaluated sums of two floats: about twice the digits, without a wider type.

Dekker, A floating-point technique for extending the available precision, Numer. Math. 18 (1971);
Knuth, The Art of Computer Programming 2, 4.2.2, theorem B; products and remainders by fused
multiply-add, as in Muller et al., Handbook of Floating-Point Arithmetic, chapter 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from chainrule.compile.mathlib.reals import Mask, Real


@final
@dataclass(frozen=True, eq=False, slots=True)
class Two:
    """hi + lo, where |lo| is at most about an ulp of hi."""

    hi: Real
    lo: Real

    def __add__(self, other: Two | Real) -> Two:
        if isinstance(other, Real):
            s = total(self.hi, other)
            return quick_total(s.hi, s.lo + self.lo)
        s = total(self.hi, other.hi)
        return quick_total(s.hi, s.lo + (self.lo + other.lo))

    def __neg__(self) -> Two:
        return Two(-self.hi, -self.lo)

    def __sub__(self, other: Two) -> Two:
        return self + -other

    def __mul__(self, other: Two | Real) -> Two:
        if isinstance(other, Real):
            p = product(self.hi, other)
            return quick_total(p.hi, self.lo.fma(other, p.lo))
        p = product(self.hi, other.hi)
        return quick_total(p.hi, self.lo.fma(other.hi, self.hi.fma(other.lo, p.lo)))

    def __truediv__(self, other: Two) -> Two:
        q = self.hi / other.hi
        rest = (-q).fma(other.hi, self.hi) + (-q).fma(other.lo, self.lo)
        return quick_total(q, rest / other.hi)

    def times(self, power: Real | float) -> Two:
        """This times a power of two."""
        return Two(self.hi * power, self.lo * power)

    def value(self) -> Real:
        """The sum, rounded."""
        return self.hi + self.lo


def quick_total(a: Real, b: Real) -> Two:
    """a + b exactly, where |a| >= |b| or a = 0."""
    s = a + b
    return Two(s, b - (s - a))


def total(a: Real, b: Real) -> Two:
    """a + b exactly."""
    s = a + b
    c = s - a
    return Two(s, (a - (s - c)) + (b - c))


def product(a: Real, b: Real) -> Two:
    """a b exactly."""
    p = a * b
    return Two(p, a.fma(b, -p))


def over(y: Real | Two, below: Two) -> Real:
    """y / below, rounded little more than once."""
    one = 1.0 / below.hi
    hi = y.hi if isinstance(y, Two) else y
    q = hi * one
    rest = (-q).fma(below.hi, hi)
    rest = (-q).fma(below.lo, rest + y.lo if isinstance(y, Two) else rest)
    return rest.fma(one, q)


def root(x: Two) -> Two:
    """The square root; of 0 it is 0."""
    s = x.hi.intrinsic("sqrt")
    rest = (-s).fma(s, x.hi) + x.lo
    return Two(s, (s > 0.0).where(rest / (s + s), 0.0))


def pick(mask: Mask, a: Two, b: Two) -> Two:
    """a where the mask holds, b elsewhere."""
    return Two(mask.where(a.hi, b.hi), mask.where(a.lo, b.lo))


def exactly(x: Real) -> Two:
    """x itself."""
    return Two(x, x.at.real(0.0))


def constant(x: Real, hi: float, lo: float) -> Two:
    """A known number, to twice the digits, in the lanes of x."""
    return Two(x.at.real(hi), x.at.real(lo))
