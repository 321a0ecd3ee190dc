"""Numbers in registers: operators that write LLVM instructions.

A `Real` is a float or a double, or a vector of them; `Bits` the integers of the same width; a
`Mask` one truth value per lane. Formulas are written with Python's operators on them, and constants
take the type of what they meet. Nothing here may be reassociated or contracted: the formulas
of this package count on each rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from llvmlite import ir

if TYPE_CHECKING:
    from chainrule.compile.mathlib.lanes import Lanes


@final
@dataclass(frozen=True, eq=False, slots=True)
class Mask:
    """A truth value per lane."""

    at: Lanes
    v: Any

    def __and__(self, other: Mask) -> Mask:
        return Mask(self.at, self.at.builder.and_(self.v, other.v))

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.at, self.at.builder.or_(self.v, other.v))

    def __xor__(self, other: Mask) -> Mask:
        return Mask(self.at, self.at.builder.xor(self.v, other.v))

    def __invert__(self) -> Mask:
        return Mask(self.at, self.at.builder.not_(self.v))

    def where(self, a: Real, b: Real | float) -> Real:
        """a where this holds, b elsewhere."""
        other = b if isinstance(b, Real) else a.at.real(b)
        return Real(a.at, self.at.builder.select(self.v, a.v, other.v))

    def choose(self, a: Bits, b: Bits | int) -> Bits:
        """a where this holds, b elsewhere: of integers."""
        other = b if isinstance(b, Bits) else a.at.int(b)
        return Bits(a.at, self.at.builder.select(self.v, a.v, other.v))

    def any(self) -> Any:
        """Whether it holds in a lane: an i1."""
        if not self.at.width:
            return self.v
        return self.at.call("vector.reduce.or", self.v, result=ir.IntType(1))


@final
@dataclass(frozen=True, eq=False, slots=True)
class Bits:
    """An integer per lane, as wide as the lane's float: `raw`, less `above`."""

    at: Lanes
    raw: Any
    above: int = 0

    @property
    def v(self) -> Any:
        """The integer."""
        if not self.above:
            return self.raw
        return self.at.builder.sub(self.raw, self.at.constant(self.at.integer, self.above))

    def _with(self, other: Bits | int) -> Any:
        return other.v if isinstance(other, Bits) else self.at.constant(self.at.integer, other)

    def __add__(self, other: Bits | int) -> Bits:
        return Bits(self.at, self.at.builder.add(self.raw, self._with(other)), self.above)

    def __sub__(self, other: Bits | int) -> Bits:
        return Bits(self.at, self.at.builder.sub(self.raw, self._with(other)), self.above)

    def __and__(self, other: Bits | int) -> Bits:
        return Bits(self.at, self.at.builder.and_(self.v, self._with(other)))

    def __or__(self, other: Bits | int) -> Bits:
        return Bits(self.at, self.at.builder.or_(self.v, self._with(other)))

    def __xor__(self, other: Bits | int) -> Bits:
        return Bits(self.at, self.at.builder.xor(self.v, self._with(other)))

    def __lshift__(self, n: int) -> Bits:
        gone = (self.above << n) % (1 << self.at.bits) == 0
        return Bits(self.at, self.at.builder.shl(self.raw if gone else self.v, self._with(n)))

    def __rshift__(self, n: int) -> Bits:
        return Bits(self.at, self.at.builder.lshr(self.v, self._with(n)))

    def signed_shift(self, n: int) -> Bits:
        """Halves n times, rounding down, the sign kept."""
        return Bits(self.at, self.at.builder.ashr(self.v, self._with(n)))

    def less(self, other: Bits | int) -> Mask:
        """Signed comparison."""
        return Mask(self.at, self.at.builder.icmp_signed("<", self.v, self._with(other)))

    def equal(self, other: Bits | int) -> Mask:
        """Whether all bits agree."""
        return Mask(self.at, self.at.builder.icmp_signed("==", self.v, self._with(other)))

    def real(self) -> Real:
        """The float with these bits."""
        return Real(self.at, self.at.builder.bitcast(self.v, self.at.kind))

    def value(self) -> Real:
        """The float equal to this integer, which must be below 2^22 (float32) or 2^51."""
        return (self + self.at.magic_bits).real() - self.at.magic


@final
@dataclass(frozen=True, eq=False, slots=True)
class Real:
    """A float per lane."""

    at: Lanes
    v: Any

    def lift(self, other: Real | float) -> Real:
        """`other` in these lanes."""
        return other if isinstance(other, Real) else self.at.real(other)

    def __add__(self, other: Real | float) -> Real:
        return Real(self.at, self.at.builder.fadd(self.v, self.lift(other).v))

    __radd__ = __add__

    def __sub__(self, other: Real | float) -> Real:
        return Real(self.at, self.at.builder.fsub(self.v, self.lift(other).v))

    def __rsub__(self, other: float) -> Real:
        return self.lift(other) - self

    def __mul__(self, other: Real | float) -> Real:
        return Real(self.at, self.at.builder.fmul(self.v, self.lift(other).v))

    __rmul__ = __mul__

    def __truediv__(self, other: Real | float) -> Real:
        return Real(self.at, self.at.builder.fdiv(self.v, self.lift(other).v))

    def __rtruediv__(self, other: float) -> Real:
        return self.lift(other) / self

    def __neg__(self) -> Real:
        return Real(self.at, self.at.builder.fneg(self.v))

    def __abs__(self) -> Real:
        return self.intrinsic("fabs")

    def intrinsic(self, name: str, *others: Real | float) -> Real:
        """LLVM's function of that name on this and the others."""
        return Real(self.at, self.at.call(name, self.v, *(self.lift(x).v for x in others)))

    def fma(self, b: Real | float, c: Real | float) -> Real:
        """This times b plus c, rounded once, or to within an ulp where no instruction does it. So
        what is left of a cancellation has full precision."""
        if self.at.target.fma:
            return self.intrinsic("fma", b, c)
        b, c = self.lift(b), self.lift(c)
        if self.at.bits == 32:  # the product of two float32 is a float64
            return (self.widened() * b.widened() + c.widened()).narrowed()
        return _multiply_add_exactly(self, b, c)

    def multiply_add(self, b: Real | float, c: Real | float) -> Real:
        """This times b plus c, as the target does it fastest: rounded once or twice."""
        return self.intrinsic("fma", b, c) if self.at.target.fma else self * b + c

    def copysign(self, other: Real | float) -> Real:
        """This with the sign of the other."""
        return self.intrinsic("copysign", other)

    def signed(self, other: Real) -> Real:
        """This, which is not negative, with the sign of the other."""
        return (self.bits() | (other.bits() & self.at.sign)).real()

    def _compare(self, how: str, other: Real | float) -> Mask:
        return Mask(self.at, self.at.builder.fcmp_ordered(how, self.v, self.lift(other).v))

    def __lt__(self, other: Real | float) -> Mask:
        return self._compare("<", other)

    def __le__(self, other: Real | float) -> Mask:
        return self._compare("<=", other)

    def __gt__(self, other: Real | float) -> Mask:
        return self._compare(">", other)

    def __ge__(self, other: Real | float) -> Mask:
        return self._compare(">=", other)

    def same(self, other: Real | float) -> Mask:
        """Whether they are equal as numbers; a NaN is not."""
        return self._compare("==", other)

    def is_nan(self) -> Mask:
        """Whether this is no number."""
        return Mask(self.at, self.at.builder.fcmp_unordered("uno", self.v, self.v))

    def clamp(self, low: float, high: float) -> Real:
        """This between two bounds; a NaN stays."""
        x = (self.lift(low) > self).where(self.lift(low), self)
        return (x.lift(high) < x).where(x.lift(high), x)

    def bits(self) -> Bits:
        """The bits of the float."""
        return Bits(self.at, self.at.builder.bitcast(self.v, self.at.integer))

    def widened(self) -> Real:
        """The same number in float64."""
        return Real(self.at.wide, self.at.builder.fpext(self.v, self.at.wide.kind))

    def narrowed(self) -> Real:
        """The nearest float32."""
        return Real(self.at.half, self.at.builder.fptrunc(self.v, self.at.half.kind))


def _multiply_add_exactly(a: Real, b: Real, c: Real) -> Real:
    """a b + c in float64, to within an ulp: the product exactly, as the sum of two numbers (Dekker,
    Numer. Math. 18, 1971), and the error of its sum with c (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    p = a * b
    (a_hi, a_lo), (b_hi, b_lo) = _halves(a), _halves(b)
    below = ((a_hi * b_hi - p) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo
    s = p + c
    d = s - p
    error = (p - (s - d)) + (c - d)
    y = s + (error + below)
    return y.is_nan().where(s, y)  # an infinite product, or one whose halves would be


def _halves(x: Real) -> tuple[Real, Real]:
    """x as the sum of two numbers of 26 bits."""
    shifted = x * (2.0**27 + 1)
    hi = shifted - (shifted - x)
    return hi, x - hi
