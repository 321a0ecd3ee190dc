"""Values of rows that NumPy does not have, or has with too few digits far out.

Three things lose digits there, and each has one remedy. A difference of nearly equal numbers
(1 - tanh^2) is stated as a quotient of sums. An exponential multiplies the rounding error of its
argument by that argument: products, differences and cubics under one are computed to twice the
digits (Dekker, Numer. Math. 18, 1971), in float64 where numbers are float32. A factor that
overflows or vanishes before the product does is applied last.

Notation: `hi + lo` a number to twice the digits; `e` an exponential of at most 1.
"""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from chainrule.engine.dtypes import float64
from chainrule.ops.values.double_digits import product
from chainrule.ops.values.floating import floating
from chainrule.ops.values.plain import one_more

E_REST = 1.4456468917292502e-16
"""What is missing in `math.e`."""
_FAR = 1e3
"""Beyond it e^-x is 0."""


# --- twice the digits ----------------------------------------------------------------------------


@floating
def exp_product(a: Any, b: Any) -> Any:
    """exp(a b), the product to twice the digits."""
    if a.dtype.kind == "c":
        return np.exp(a * b)
    if a.dtype != float64:
        return np.exp(a.astype(float64) * b).astype(a.dtype)
    hi, lo = product(a, b)
    y = np.exp(hi)
    lo *= y
    lost = ~np.isfinite(lo)
    if lost.any():  # there y is 0 or infinite
        lo[lost] = 0
    y += lo
    return y


# --- the logistic function -----------------------------------------------------------------------


def _decay(x: Any, rate: float = 1.0) -> Any:
    """e^(-rate |x|)."""
    e = np.abs(x)
    e *= -rate
    return np.exp(e, out=e)


def _complex_decay(x: Any, rate: float = 1.0) -> Any:
    """e^(-rate x), or e^(rate x) where that is the smaller one."""
    e = cast(Any, np.where(x.real < 0, x, -x))
    e.real *= rate  # by parts: a number times a complex infinity is NaN
    e.imag *= rate
    return np.exp(e)


def from_left(x: Any, m: Any) -> Any:
    """m where x is negative, elsewhere 1 - m."""
    right = (x >= 0).astype(x.dtype)
    y = 1 - (m + m)
    y *= right
    y += m
    return y


@floating
def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x); of complex x too."""
    if x.dtype.kind == "c":
        e = _complex_decay(x)
        return np.where(x.real < 0, e, 1) / (1 + e)
    e = _decay(x)
    y = np.maximum(e, x >= 0)
    e += 1
    y /= e
    return y


def _density(e: Any, scale: float = 1) -> Any:
    """e / (1 + e)^2 times `scale`; e is written to."""
    below = e + 1
    below *= below
    if scale != 1:
        e *= scale
    e /= below
    return e


@floating
def logistic_density(x: Any) -> Any:
    """e^-|x| / (1 + e^-|x|)^2, the slope of the sigmoid; of complex x too."""
    return _density(_complex_decay(x) if x.dtype.kind == "c" else _decay(x))


@floating
def sech_square(x: Any) -> Any:
    """1 / cosh(x)^2 = 4 e / (1 + e)^2 with e = e^(-2 |x|), the slope of tanh; of complex x too."""
    if x.dtype.kind == "c":
        return _density(_complex_decay(x, 2), 4)
    return _density(_decay(x, 2), 4)


@floating
def sech(x: Any) -> Any:
    """1 / cosh(x), without overflow."""
    e = _decay(x)
    return 2 * e / (1 + e * e)


@floating
def sigmoid_diff(a: Any, b: Any) -> Any:
    """1 / (1 + e^(b - a)), the difference to twice the digits; 0 where both are -inf."""
    if a.dtype.kind == "c":
        y = sigmoid(np.asarray(a - b))
    elif a.dtype != float64:
        y = sigmoid(a.astype(float64) - b).astype(a.dtype)
    else:
        d = np.subtract(a, b)
        part = d - a  # the difference exactly: Knuth, The Art of Computer Programming 2, 4.2.2
        lo = np.where(np.abs(d) < 1e4, (a - (d - part)) - (b + part), 0)
        e = _decay(d)
        y = np.maximum(e, d >= 0) / (1 + e)
        y += y * lo * np.maximum(e, d < 0) / (1 + e)
    return np.where(np.equal(a, -np.inf), y.dtype.type(0), y)


@floating
def logaddexp(a: Any, b: Any) -> Any:
    """log(e^a + e^b); of complex numbers too: what of the larger part is left, beside it."""
    if a.dtype.kind != "c":
        return np.logaddexp(a, b)
    first = a.real >= b.real
    most, least = np.where(first, a, b), np.where(first, b, a)
    both = np.isneginf(most.real)  # there the difference is NaN
    return most + np.where(both, 0, np.log1p(np.exp(np.where(both, 0, least - most))))


@floating
def logistic_loss(a: Any, b: Any) -> Any:
    """-b log(s) - (1 - b) log(1 - s), s = sigmoid(a): exact far out too, if b is 0 or 1."""
    return (np.maximum(a, 0) - a * b) + np.log1p(_decay(a))


def times_sigmoid(x: Any, root: Any) -> Any:
    """x sigmoid(u), root = e^(-|u| / 2): on the left it is applied last, twice, since its square
    can have lost digits already where x times it has not."""
    y = x / (1 + root * root)
    left = np.maximum(root, x >= 0)
    y *= left
    y *= left
    return y


def gated_slope(x: Any, root: Any, slope: Any) -> Any:
    """The derivative of x sigmoid(u), `slope` that of u: m on the left, 1 - m on the right, where
    m = e (1 + e - |x| u') / (1 + e)^2, e = root^2."""
    m = _per_square((1 - np.abs(x) * slope), root * root)
    m *= root
    m *= root
    return from_left(x, m)


def _per_square(y: Any, e: Any) -> Any:
    """(y + e) / (1 + e)^2; y is written to."""
    y += e
    below = e + 1
    below *= below
    y /= below
    return y


@floating
def silu(x: Any) -> Any:
    """x / (1 + e^-x)."""
    return times_sigmoid(x, _decay(x, 0.5))


@floating
def silu_slope(x: Any) -> Any:
    """The derivative of `silu`: the sigmoid, plus x times its density."""
    e = _decay(x)
    a = np.minimum(np.abs(x), _FAR)
    m = _per_square(1 - a, e)
    far = e < np.finfo(e.dtype).tiny
    m *= e
    if far.any():  # e has lost digits that a product with it need not have
        root = np.exp(-0.5 * a[far])
        m[far] = (1 - a[far]) * root * root
    return from_left(x, m)


def _mish_parts(x: Any) -> tuple[Any, Any, Any, Any]:
    """p = sigmoid(-x), 1 + p^2, and root and 1 / (1 + e) of sigmoid(x) = root^2 / (1 + e)."""
    root = _decay(x, 0.5)
    e = root * root
    p = np.maximum(e, x < 0) / (1 + e)
    return p, 1 + p * p, np.maximum(root, x >= 0), 1 + e


@floating
def mish(x: Any) -> Any:
    """x tanh(log(1 + e^x)) = x s (1 + p) / (1 + p^2), s = sigmoid(x), p = sigmoid(-x)."""
    p, square, root, below = _mish_parts(x)
    return x * (1 + p) / (square * below) * root * root


@floating
def mish_slope(x: Any) -> Any:
    """The derivative of `mish`: w e^x / (2 + 2 e^x + e^2x)^2, w = 4 (x + 1) + (4 x + 6) e^x +
    4 e^2x + e^3x; on the right both by e^4x. It is computed in float64."""
    a = np.minimum(np.abs(x.astype(float64)), _FAR)
    root = np.exp(-0.5 * a)
    e = root * root
    a *= 4
    left = (4 - a) + e * ((6 - a) + e * (4 + e))
    right = 1 + e * (4 + e * ((6 + a) + e * (4 + a)))
    below = 1 + e
    below *= below
    on_left = x < 0
    below += np.where(on_left, 1, e * e)
    y = np.where(on_left, left, right) / (below * below)
    root = np.where(on_left, root, 1)
    y *= root
    y *= root
    return y.astype(x.dtype)


# --- others --------------------------------------------------------------------------------------


@floating
def entr_slope(x: Any) -> Any:
    """-log(x) - 1 = -log(e x): near its zero by what e x is more than 1."""
    if x.dtype != float64:
        return (-1 - np.log(x.astype(float64))).astype(x.dtype)
    hi, lo = product(x, np.full_like(x, math.e))
    more = (hi - 1) + (lo + E_REST * x)
    near = np.abs(more) < 0.5
    return -np.where(near, np.log1p(np.where(near, more, 0)), np.log(x) + 1)


@floating
def log1p_slope(x: Any) -> Any:
    """1 / (1 + x); of complex x too."""
    return 1 / one_more(x)


_SMALL = {"f": 2.0**-40, "d": 2.0**-300}
"""Squares of numbers times it do not overflow while the inverse of a square is no 0: up to the
inverse of its own square."""


@floating
def atan_slope(x: Any) -> Any:
    """1 / (1 + x^2), the derivative of atan, as s^2 / (s^2 + (s x)^2); of complex x too."""
    if x.dtype.kind == "c":
        return 1 / one_more(x * x)
    s = _SMALL[x.dtype.char]
    y = x * s
    y *= y
    y += s * s
    return np.divide(s * s, y, out=y)


@floating
def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    y = np.abs(x)
    y += 1
    return np.divide(x, y, out=y)


@floating
def softsign_slope(x: Any) -> Any:
    """1 / (1 + |x|)^2, the derivative of `softsign`, as s^2 / (s + s |x|)^2; what the sum loses is
    put back (Knuth, The Art of Computer Programming 2, 4.2.2)."""
    s = _SMALL[x.dtype.char]
    a = np.minimum(np.abs(x), 1 / (s * s))
    a *= s
    below = a + s
    part = below - s
    lost = (s - (below - part)) + (a - part)
    y = (s * s) / (below * below)
    lost *= below
    lost *= y
    lost *= 2 / (s * s)
    return y - lost * y


@floating
def tanhshrink(x: Any) -> Any:
    """x - tanh(x); where that cancels by the continued fraction of tanh."""
    z = np.minimum(np.abs(x), 1) ** 2
    part = np.full_like(z, 17)
    for n in (15, 13, 11, 9, 7, 5, 3):
        part = n + z / part
    part = z / part
    return np.where(np.abs(x) < 1, x * (part / (1 + part)), x - np.tanh(x))


@floating
def cbrt(x: Any) -> Any:
    """The cube root: NumPy's, which is off by some units, and a step of Newton's method."""
    y = np.cbrt(x)
    if x.dtype != float64:
        return y
    square, square_lo = product(y, y)
    cube, cube_lo = product(square, y)
    rest = (x - cube) - (cube_lo + square_lo * y)
    return y + np.where(np.abs(rest) < np.abs(x), rest / (3 * square), -0.0)


@floating
def cbrt_slope(x: Any) -> Any:
    """The derivative of `cbrt`."""
    y = cbrt(x) if isinstance(x, np.ndarray) else np.cbrt(x)  # the compiler's is exact
    return 1 / (3 * y * y)
