"""Functions whose result is exact: remainders, rounding, signs, neighbours."""

from __future__ import annotations

import math

from chainrule.compile.mathlib.reals import Mask, Real


def fmod(a: Real, b: Real) -> Real:
    """a less a multiple of b, with a's sign: C's fmod, exactly.

    One pass does when a / b is no larger than what the format can count: then the multiple is known
    exactly. Beyond, each pass takes off as many digits.
    """
    step = abs(b)
    large = 2.0 ** (a.at.bias - 1)

    def body(rest: Real) -> tuple[Real, Mask]:
        unit = step
        for _ in range(2):  # so that rest / unit does not overflow
            unit = (abs(rest) * (1 / large) > unit).where(unit * large, unit)
        rest = (-(rest / unit).intrinsic("trunc")).fma(unit, rest)
        return rest, (abs(rest) >= step) & (step > 0.0)

    rest = a.at.repeat(body, abs(a))
    rest = (rest < 0.0).where(rest + step, rest)
    rest = (step.same(math.inf) & (abs(a) < math.inf)).where(abs(a), rest)
    return rest.copysign(a)


def _divmod(a: Real, b: Real) -> tuple[Real, Real]:
    """NumPy's floor_divide and remainder: rounded down, the remainder with b's sign."""
    rest = fmod(a, b)
    quotient = (a - rest) / b
    zero = rest.same(0.0)
    wrong = ~zero & ((b < 0.0) ^ (rest < 0.0))
    quotient = wrong.where(quotient - 1.0, quotient)
    mod = zero.where(a.lift(0.0).copysign(b), wrong.where(rest + b, rest))
    down = quotient.intrinsic("floor")
    down = (quotient - down > 0.5).where(down + 1.0, down)
    down = quotient.same(0.0).where(a.lift(0.0).copysign(a / b), down)
    return b.same(0.0).where(a / b, down), b.same(0.0).where(rest, mod)


def floor_divide(a: Real, b: Real) -> Real:
    """The quotient, rounded down."""
    return _divmod(a, b)[0]


def remainder(a: Real, b: Real) -> Real:
    """What `floor_divide` leaves: it has b's sign."""
    return _divmod(a, b)[1]


def copysign(a: Real, b: Real) -> Real:
    """a with the sign of b."""
    return a.copysign(b)


def round(x: Real) -> Real:
    """The nearest integer, ties to even."""
    return x.intrinsic("roundeven")


def sign(x: Real) -> Real:
    """-1, 0 or 1."""
    return (x > 0.0).where(
        x.lift(1.0), (x < 0.0).where(x.lift(-1.0), x.same(0.0).where(x.lift(0.0), x))
    )


def nextafter(a: Real, b: Real) -> Real:
    """The float next to a on the way to b."""
    away = ((a < b) & (a > 0.0)) | ((a > b) & (a < 0.0))
    i = a.bits()
    moved = away.choose(i + 1, i - 1).real()
    moved = a.same(0.0).where(a.at.int(1).real().copysign(b), moved)
    moved = a.same(b).where(b, moved)
    return (a.is_nan() | b.is_nan()).where(a + b, moved)
