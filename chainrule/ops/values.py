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

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any, cast

import numpy as np

from chainrule.dtypes import check_real, float64, rounded_once
from chainrule.ops.constants import GATE_END, GATE_SCALE, GATE_SCALE_REST, TANH_CUBIC
from chainrule.ops.double_digits import exp_of_sum, product, split
from chainrule.ops.special_values import special

ROOT_HALF = math.sqrt(0.5)
INV_ROOT_2_PI = 1 / math.sqrt(2 * math.pi)
E_REST = 1.4456468917292502e-16
"""What is missing in `math.e`."""
_FAR = 1e3
"""Beyond it e^-x is 0."""
_COMPLEX = {"sigmoid", "logistic_density", "sech_square", "exp_product"}
"""Functions here that take complex numbers; the others read |x| or an order and refuse them."""
_BLOCK = 1 << 16
"""Bytes of which several passes stay in the processor's cache."""

Fn = Callable[..., Any]


def floating(fn: Fn) -> Fn:
    """`fn` of arrays of one dtype of floats, with an axis at least: float16 and bfloat16 are
    computed in float32, integers in float64. A large array goes through in blocks."""
    several = rounded_once(lambda *xs: _alike(fn, xs))

    @wraps(fn)
    def computed(*xs: Any) -> Any:
        x = xs[0]
        plain = len(xs) == 1 and x.__class__ is np.ndarray and x.dtype.char in "fd" and x.ndim
        return (fn(x) if x.nbytes <= 2 * _BLOCK else _in_blocks(fn, x)) if plain else several(*xs)

    return computed


def _alike(fn: Fn, xs: Sequence[Any]) -> Any:
    dtype = np.result_type(*xs)
    if fn.__name__ not in _COMPLEX:
        check_real(fn.__name__, *xs)
    if dtype.kind in "biu":
        dtype = float64
    arrays = [np.asarray(x, dtype) for x in xs]
    y = fn(*[x if x.ndim else x.reshape(1) for x in arrays])
    return y if any(x.ndim for x in arrays) else y[0]


def _in_blocks(fn: Fn, x: Any) -> Any:
    if not x.flags.c_contiguous:
        return fn(x)
    out = np.empty_like(x)
    flat, y = x.reshape(-1), out.reshape(-1)
    step = _BLOCK // x.itemsize
    for i in range(0, flat.size, step):
        y[i : i + step] = fn(flat[i : i + step])
    return out


_erfc, _erfcx = special("erfc"), special("erfcx")


# --- twice the digits ----------------------------------------------------------------------------


@floating
def exp_product(a: Any, b: Any) -> Any:
    """exp(a b), the product to twice the digits."""
    if a.dtype.kind == "c":
        return np.exp(a * b)
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


def _from_left(x: Any, m: Any) -> Any:
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
    d = np.subtract(a, b)
    part = d - a  # the difference exactly: Knuth, The Art of Computer Programming 2, 4.2.2
    lo = np.where(np.abs(d) < 1e4, (a - (d - part)) - (b + part), 0)
    e = _decay(d)
    y = np.maximum(e, d >= 0) / (1 + e)
    y += y * lo * np.maximum(e, d < 0) / (1 + e)
    return np.where(np.equal(a, -np.inf), y.dtype.type(0), y)


@floating
def logistic_loss(a: Any, b: Any) -> Any:
    """-b log(s) - (1 - b) log(1 - s), s = sigmoid(a): exact far out too, if b is 0 or 1."""
    return (np.maximum(a, 0) - a * b) + np.log1p(_decay(a))


def _gated(x: Any, root: Any) -> Any:
    """x sigmoid(u), root = e^(-|u| / 2): on the left it is applied last, twice, since its square
    can have lost digits already where x times it has not."""
    y = x / (1 + root * root)
    left = np.maximum(root, x >= 0)
    y *= left
    y *= left
    return y


def _gated_slope(x: Any, root: Any, slope: Any) -> Any:
    """The derivative of x sigmoid(u), `slope` that of u: m on the left, 1 - m on the right, where
    m = e (1 + e - |x| u') / (1 + e)^2, e = root^2."""
    m = _per_square((1 - np.abs(x) * slope), root * root)
    m *= root
    m *= root
    return _from_left(x, m)


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
    return _gated(x, _decay(x, 0.5))


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
    return _from_left(x, m)


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
    4 e^2x + e^3x; on the right both by e^4x."""
    x = np.clip(x, -_FAR, _FAR)
    root = _decay(x, 0.5)
    e = root * root
    middle, one = 4 * x + 6, 4 * (x + 1)
    left = (one + e * (middle + e * (4 + e))) / np.square(2 + e * (2 + e))
    right = (1 + e * (4 + e * (middle + e * one))) / np.square(1 + e * (2 + 2 * e))
    return np.where(x < 0, left * root * root + 0.0, right)


# --- the normal distribution ---------------------------------------------------------------------


@cache
def _scaled_erfc() -> Sequence[float]:
    """(1 + 2 u) erfcx(u), u up to 25, as a polynomial of (u - 4) / (u + 4): as exact as float32.

    Shepherd & Laframboise, Math. Comp. 36 (1981); it is fitted to SciPy's when first needed.
    """

    def scaled(t: Any) -> Any:
        u = 4 * (1 + t) / (1 - t)
        return (1 + 2 * u) * _erfcx(u)

    fit = np.polynomial.Chebyshev.interpolate(scaled, 12, domain=[-1.0, 0.73])
    return fit.convert(kind=np.polynomial.Polynomial).coef.tolist()


def _half_erfcx(u: Any) -> Any:
    """erfcx(u) / 2, 0 <= u <= 25."""
    if u.dtype == float64:
        return 0.5 * _erfcx(u)
    t = (u - 4) / (u + 4)
    *rest, last = _scaled_erfc()
    y = np.full_like(u, last)
    for c in reversed(rest):
        y *= t
        y += c
    return y / (2 + 4 * u)


def _tail(x: Any) -> tuple[Any, Any, Any]:
    """a = |x| up to where all that is left is 0; e and c: e c is the probability beyond a, e =
    exp(-a^2 / 2)."""
    a = np.minimum(np.abs(x), x.dtype.type(40))
    hi, lo = product(a, a)
    return a, exp_of_sum(-0.5 * hi, -0.5 * lo), _half_erfcx(a * ROOT_HALF)


@floating
def ndtr(x: Any) -> Any:
    """The probability that a normal number is below x."""
    _, e, c = _tail(x)
    return _from_left(x, e * c)


@floating
def gelu_erf(x: Any) -> Any:
    """x times the probability that a normal number is below x."""
    a, e, c = _tail(x)
    return x * (x >= 0) - (a * c) * e


@floating
def gelu_erf_slope(x: Any) -> Any:
    """The derivative of `gelu_erf`: that probability, plus x times its density."""
    a, e, c = _tail(x)
    part = c - a * INV_ROOT_2_PI
    m = e * part
    far = e < np.finfo(e.dtype).tiny
    if far.any():  # as for `silu_slope`
        root = exp_of_sum(*product(a[far], -0.25 * a[far]))
        m[far] = part[far] * root * root
    if x.dtype == float64:  # near 0 erfc has more digits than its scaled form
        near = 0.5 * _erfc(np.minimum(a, 1) * ROOT_HALF) - (a * INV_ROOT_2_PI) * e
        m = np.where(a < 1, near, m)
    return _from_left(x, m)


@floating
def erfc(x: Any) -> Any:
    """1 - erf(x); beyond 1 by the scaled function: exp(-x^2) loses digits otherwise."""
    far = x.real > 1
    if x.dtype.kind == "c" or not far.any():
        return _erfc(x)
    t = np.where(far, x, x.dtype.type(1))
    return np.where(far, exp_product(-t, t) * _erfcx(t), _erfc(x))


# --- GELU's tanh form ----------------------------------------------------------------------------


def _cubic(x: Any) -> tuple[Any, Any]:
    """v = 2 sqrt(2 / pi) (x + 0.044715 x^3) as hi + lo; x within `GATE_END`."""
    if x.dtype != float64:
        wide = x.astype(float64)
        return split(GATE_SCALE * (wide + TANH_CUBIC * (wide * wide * wide)), x.dtype)
    z, z_lo = product(x, x)
    w, w_lo = product(np.full_like(x, TANH_CUBIC), z)
    one = w + 1
    one_lo = ((1 - one) + w) + (w_lo + TANH_CUBIC * z_lo)
    s, s_lo = product(np.full_like(x, GATE_SCALE), one)
    s_lo += GATE_SCALE * one_lo + GATE_SCALE_REST * one
    v, v_lo = product(x, s)
    return v, v_lo + x * s_lo


def _gate_parts(x: Any) -> tuple[Any, Any]:
    """x within `GATE_END`, and e^(-|v| / 2)."""
    x = np.clip(x, -GATE_END, GATE_END)
    v, lo = _cubic(x)
    v *= 0.5
    lo *= -np.copysign(x.dtype.type(0.5), v)
    return x, exp_of_sum(np.copysign(v, -1.0), lo)


def _gate_exponent_slope(x: Any) -> Any:
    y = x * x
    y *= 3 * GATE_SCALE * TANH_CUBIC
    y += GATE_SCALE
    return y


@floating
def gelu_gate(x: Any) -> Any:
    """What the tanh form multiplies x by: (1 + tanh(v / 2)) / 2 = sigmoid(v)."""
    _, root = _gate_parts(x)
    left = np.maximum(root, x >= 0)
    return left / (1 + root * root) * left


@floating
def gelu_gate_root(x: Any) -> Any:
    """The root of the gate's logistic density, 1 / (2 cosh(v / 2))."""
    _, root = _gate_parts(x)
    return root / (1 + root * root)


@floating
def gelu_gate_slope(x: Any) -> Any:
    """The derivative of the gate."""
    x, root = _gate_parts(x)
    below = 1 + root * root
    return (root * _gate_exponent_slope(x) / (below * below)) * root


@floating
def gelu_tanh(x: Any) -> Any:
    """x times its gate."""
    return _gated(x, _gate_parts(x)[1])


@floating
def gelu_tanh_slope(x: Any) -> Any:
    """The derivative of `gelu_tanh`."""
    x, root = _gate_parts(x)
    return _gated_slope(x, root, _gate_exponent_slope(x))


# --- others --------------------------------------------------------------------------------------


@floating
def entr_slope(x: Any) -> Any:
    """-log(x) - 1 = -log(e x): near its zero by what e x is more than 1."""
    hi, lo = product(x, np.full_like(x, math.e))
    rest = E_REST if x.dtype == float64 else math.e - float(x.dtype.type(math.e))
    more = (hi - 1) + (lo + rest * x)
    near = np.abs(more) < 0.5
    return -np.where(near, np.log1p(np.where(near, more, 0)), np.log(x) + 1)


@floating
def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    return x / (1 + np.abs(x))


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
    y = cbrt(x)
    return 1 / (3 * y * y)
