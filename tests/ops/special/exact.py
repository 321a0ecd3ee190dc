"""Exact values and derivatives of the smooth ops, by mpmath: an oracle that knows nothing of ours.

A function is written once, of generic numbers; a dual number carries its derivative along, a dual
number of dual numbers the second one. Whatever cancels on the way costs digits, not the result:
`agreed` computes with more and more of them until two answers agree.

Notation: `v` a value, `d` its derivative; both are mpf or dual numbers themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

DIGITS = (50, 120, 300, 800, 2000)
"""The precisions that are tried in turn."""
SAME = mp.mpf(10) ** -20
"""Relative distance at which two answers agree; a double has 16 digits."""
NOTHING = mp.mpf(10) ** -330
"""What is below this is 0 in every format."""


class Dual:
    """A number with its derivative."""

    __slots__ = ("d", "v")

    def __init__(self, v: Any, d: Any) -> None:
        self.v, self.d = v, d

    def __add__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.v + other.v, self.d + other.d)
        return Dual(self.v + other, self.d)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.v, -self.d)

    def __sub__(self, other: Any) -> Dual:
        return self + -other

    def __rsub__(self, other: Any) -> Dual:
        return -self + other

    def __mul__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.v * other.v, self.d * other.v + self.v * other.d)
        return Dual(self.v * other, self.d * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        return self * reciprocal(other)

    def __rtruediv__(self, other: Any) -> Dual:
        return reciprocal(self) * other


def reciprocal(x: Any) -> Any:
    """1 / x."""
    if not isinstance(x, Dual):
        return 1 / mp.mpf(x)
    y = reciprocal(x.v)
    return Dual(y, -(y * y) * x.d)


def lifted(f: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """mpmath's function `f` on dual numbers too, given its derivative as a function of them."""

    def of(x: Any) -> Any:
        return Dual(of(x.v), slope(x.v) * x.d) if isinstance(x, Dual) else f(mp.mpf(x))

    return of


def plain(x: Any) -> Any:
    """The number under all derivatives."""
    while isinstance(x, Dual):
        x = x.v
    return x


def size(x: Any) -> Any:
    """|x|."""
    return -x if plain(x) < 0 else x


exp = lifted(mp.exp, lambda x: exp(x))
expm1 = lifted(mp.expm1, lambda x: exp(x))
log = lifted(mp.log, reciprocal)
log1p = lifted(mp.log1p, lambda x: 1 / (1 + x))
sqrt = lifted(mp.sqrt, lambda x: 1 / (2 * sqrt(x)))
sin = lifted(mp.sin, lambda x: cos(x))
cos = lifted(mp.cos, lambda x: -sin(x))
sinh = lifted(mp.sinh, lambda x: cosh(x))
cosh = lifted(mp.cosh, lambda x: sinh(x))
tan = lifted(mp.tan, lambda x: 1 / (cos(x) * cos(x)))
tanh = lifted(mp.tanh, lambda x: 1 / (cosh(x) * cosh(x)))
asin = lifted(mp.asin, lambda x: 1 / sqrt((1 - x) * (1 + x)))
atan = lifted(mp.atan, lambda x: 1 / (1 + x * x))
asinh = lifted(mp.asinh, lambda x: 1 / sqrt(1 + x * x))
acosh = lifted(mp.acosh, lambda x: 1 / sqrt((x - 1) * (x + 1)))
atanh = lifted(mp.atanh, lambda x: 1 / ((1 - x) * (1 + x)))
cbrt = lifted(lambda x: mp.sign(x) * mp.cbrt(abs(x)), lambda x: 1 / (3 * cbrt(x) * cbrt(x)))
erf = lifted(
    lambda x: mp.erf(x) if abs(x) < 1e4 else mp.sign(x),
    lambda x: exp(-x * x) * (2 / mp.sqrt(mp.pi)),
)
erfc = lifted(
    lambda x: mp.erfc(x) if abs(x) < 1e4 else 1 - mp.sign(x),
    lambda x: exp(-x * x) * (-2 / mp.sqrt(mp.pi)),
)
lgamma = lifted(lambda x: mp.re(mp.loggamma(x)), lambda x: polygamma(0)(x))


def polygamma(n: int) -> Callable[[Any], Any]:
    """The derivative of order n of digamma."""
    return lifted(lambda x: mp.psi(n, x), lambda x: polygamma(n + 1)(x))


def bessel_i(n: int) -> Callable[[Any], Any]:
    """The modified Bessel function of order n."""
    return lifted(
        lambda x: mp.besseli(n, x),
        lambda x: (bessel_i(abs(n - 1))(x) + bessel_i(n + 1)(x)) / 2,
    )


def power(a: Any, b: Any) -> Any:
    """a^b, a > 0."""
    return exp(b * log(a))


def atan2(a: Any, b: Any) -> Any:
    """The angle of the point (b, a)."""
    if not isinstance(a, Dual):
        return mp.atan2(a, b)
    square = a.v * a.v + b.v * b.v
    return Dual(atan2(a.v, b.v), (b.v * a.d - a.v * b.d) / square)


def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x)."""
    return exp(x * x) * erfc(x)


def erfinv(x: Any) -> Any:
    """The number whose erf is x."""
    return _erfinv(x)


_erfinv = lifted(mp.erfinv, lambda x: exp(_erfinv(x) * _erfinv(x)) * (mp.sqrt(mp.pi) / 2))


def derivative(f: Callable[..., Any], xs: tuple[float, ...], places: tuple[int, ...]) -> Any:
    """The derivative of f at xs for the arguments at `places`, one after the other."""
    if not places:
        return f(*[mp.mpf(x) for x in xs])
    args: list[Any] = [mp.mpf(x) for x in xs]
    for depth, place in enumerate(places):
        args = [Dual(x, _constant(1 if i == place else 0, depth)) for i, x in enumerate(args)]
    y = f(*args)
    for _ in places:
        y = y.d if isinstance(y, Dual) else mp.mpf(0)
    return plain(y)


def _constant(x: int, depth: int) -> Any:
    """A number without derivatives, as deep as the values that it is to stand beside."""
    if depth == 0:
        return mp.mpf(x)
    return Dual(_constant(x, depth - 1), _constant(0, depth - 1))


def agreed(f: Callable[..., Any], xs: tuple[float, ...], places: tuple[int, ...]) -> Any:
    """`derivative`, with as many digits as it takes."""
    last: Any = None
    for digits in DIGITS:
        with mp.workdps(digits):
            y = derivative(f, xs, places)
            if last is not None:
                if y and abs(y - last) <= SAME * abs(y):  # 0 may be what too few digits leave
                    return y
                if y and max(abs(y), abs(last)) < NOTHING:
                    return mp.mpf(0)
            last = y
    if not last:
        return last
    raise AssertionError(f"{f} at {xs}: {last} has no digits yet")


def error(got: float, want: Any, dtype: Any, floor: Any = 0) -> float:
    """The distance of `got` from `want` in units in its last place; beyond the largest number
    infinity is right. Where `floor` is larger than |want|, in units of that."""
    info = np.finfo(dtype)
    top = mp.mpf(float(info.max))
    if abs(want) > top:
        near = abs(want) < top * (1 + 4 * mp.mpf(float(info.eps)))
        ok = got in (float("inf"), float("-inf")) or (near and abs(got) == float(info.max))
        return 0.0 if ok and (got > 0) == (want > 0) else float("inf")
    if got != got:
        return float("inf")
    if got in (float("inf"), float("-inf")):
        return 1.0 if abs(want) > top * (1 - 2 * mp.mpf(float(info.eps))) else float("inf")
    exponent = max(mp.frexp(max(abs(want), floor))[1] - 1, int(info.minexp))
    return float(abs(mp.mpf(got) - want) / mp.ldexp(1, exponent - info.nmant))
