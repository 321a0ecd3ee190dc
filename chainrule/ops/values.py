"""Values of rows that NumPy does not have, or has with too few digits far out.

Three things lose digits there, and each has one remedy. A difference of nearly equal numbers
(1 - tanh^2) is stated as a quotient of sums. An exponential multiplies the rounding error of its
argument by that argument: products, differences and cubics under one are computed to twice the
digits (Dekker, Numer. Math. 18, 1971), in float64 where numbers are float32. A factor that
overflows or vanishes before the product does is applied last.

Notation: `hi + lo` a number to twice the digits; `e` an exponential of at most 1.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.dtypes import NARROW, float64, rounded_once

ROOT_HALF = math.sqrt(0.5)
INV_ROOT_2_PI = 1 / math.sqrt(2 * math.pi)
GATE_SCALE = 2 * math.sqrt(2 / math.pi)
GATE_SCALE_REST = -9.96930880911092e-17
"""What is missing in `GATE_SCALE`."""
TANH_CUBIC = 0.044715  # Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2
E_REST = 1.4456468917292502e-16
"""What is missing in `math.e`."""
GATE_END = 30.0
"""Beyond it the gate of GELU's tanh form is 0 or 1, and its slope 0, in every dtype."""
_BLOCK = 1 << 14
"""Elements of which several passes stay in the processor's cache."""

Fn = Callable[..., Any]


def floating(fn: Fn) -> Fn:
    """`fn` of arrays of one dtype of floats: float16 and bfloat16 are computed in float32, integers
    in float64. A large array goes through in blocks."""

    @rounded_once
    def computed(*xs: Any) -> Any:
        dtype = np.result_type(*xs)
        if dtype.kind in "biu":
            dtype = float64
        arrays = [np.asarray(x, dtype) for x in xs]
        if len(arrays) == 1 and arrays[0].size > 2 * _BLOCK and arrays[0].flags.c_contiguous:
            return _in_blocks(fn, arrays[0])
        return fn(*arrays)

    return computed


def _in_blocks(fn: Fn, x: Any) -> Any:
    out = np.empty_like(x)
    flat, y = x.reshape(-1), out.reshape(-1)
    for i in range(0, flat.size, _BLOCK):
        y[i : i + _BLOCK] = fn(flat[i : i + _BLOCK])
    return out


def special(name: str) -> Fn:
    """SciPy's function of that name, imported when it is first needed: that takes four NumPy imports.

    It has no version for float16 and bfloat16: those compute in float32 and are rounded.
    """
    found: Any = None

    def fn(x: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(importlib.import_module("scipy.special"), name)
        dtype = getattr(x, "dtype", None)
        if dtype is None or dtype.char not in NARROW:
            return found(x)
        return found(x.astype(np.float32)).astype(dtype)

    return fn


_erfc, _erfcx = special("erfc"), special("erfcx")


# --- twice the digits ----------------------------------------------------------------------------


def _half_of(x: Any) -> Any:
    """The upper 26 bits of float64 numbers: products of two such are exact."""
    return (np.array(x, copy=None, order="C").view(np.int64) & ~0x7FFFFFF).view(float64)


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """a b of float64 as hi + lo; lo is 0 where hi is so large that exp has no use for it."""
    hi = a * b
    p, q = _half_of(a), _half_of(b)
    lo = ((p * q - hi) + p * (b - q) + (a - p) * q) + (a - p) * (b - q)
    return hi, np.where(np.abs(hi) < 1e4, lo, 0.0)


def _in_float64(fn: Fn) -> Fn:
    """`fn(x, product)` in float64, which is what float32 numbers need for twice their digits."""

    def computed(x: Any) -> Any:
        if x.dtype == float64:
            return fn(x, _product)
        return fn(x.astype(float64), _plain_product).astype(x.dtype)

    return computed


def _plain_product(a: Any, b: Any) -> tuple[Any, Any]:
    return a * b, 0.0


@floating
def exp_product(a: Any, b: Any) -> Any:
    """exp(a b), the product to twice the digits."""
    if a.dtype != float64:
        wide = np.promote_types(a.dtype, float64)
        return np.exp(a.astype(wide) * b.astype(wide)).astype(a.dtype)
    hi, lo = _product(a, b)
    y = np.exp(hi)
    return y + y * lo


# --- the logistic function -----------------------------------------------------------------------


@floating
def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x)."""
    e = np.copysign(x, -1.0)
    e = np.exp(e)
    y = np.where(x < 0, e, e.dtype.type(1))
    y /= e + 1
    return y


@floating
def silu(x: Any) -> Any:
    """x / (1 + e^-x)."""
    return _gated(x, np.copysign(x, -1.0), 0.0)


@floating
def silu_slope(x: Any) -> Any:
    """The derivative of `silu`: the sigmoid, plus x times its density."""
    return _gated_slope(x, np.copysign(x, -1.0), 0.0, 1.0)


def _gated(x: Any, v: Any, lo: Any) -> Any:
    """x sigmoid(u), -|u| = v + lo; on the left the exponential's root is applied last, twice: the
    exponential itself can have lost digits already where x times it has not."""
    root = np.exp(0.5 * v)
    root += 0.5 * lo * root
    y = x / (1 + root * root)
    return np.where(x < 0, y * root * root, y)


def _gated_slope(x: Any, v: Any, lo: Any, slope: Any) -> Any:
    """The derivative m of x sigmoid(u) where x < 0, elsewhere 1 - m; `slope` is that of u.

    m = e (1 + e - |x| u') / (1 + e)^2, e = e^-|u|, applied as in `_gated`."""
    root = np.exp(0.5 * v)
    root += 0.5 * lo * root
    e = root * root
    m = (1 + e - np.abs(x) * slope) / ((1 + e) * (1 + e)) * root * root
    return np.where(x < 0, m, 1 - m)


@floating
def mish(x: Any) -> Any:
    """x tanh(log(1 + e^x)) = x s (1 + p) / (1 + p^2), s = sigmoid(x), p = sigmoid(-x)."""
    root = np.exp(np.copysign(0.5 * x, -1.0))
    e = root * root
    negative = x < 0
    p = np.where(negative, 1, e) / (1 + e)
    y = x * (1 + p) / ((1 + p * p) * (1 + e))
    return np.where(negative, y * root * root, y)


@floating
def mish_slope(x: Any) -> Any:
    """The derivative of `mish`: s (1 + p + 4 x p^2 / (1 + p^2)) / (1 + p^2)."""
    root = np.exp(np.copysign(0.5 * x, -1.0))
    e = root * root
    negative = x < 0
    p = np.where(negative, 1, e) / (1 + e)
    below = 1 + p * p
    y = (1 + p + 4 * (x * p) * p / below) / (below * (1 + e))
    return np.where(negative, y * root * root, y)


def _density(e: Any) -> Any:
    """e / (1 + e)^2."""
    below = e + 1
    below *= below
    return e / below


@floating
def logistic_density(x: Any) -> Any:
    """e^-|x| / (1 + e^-|x|)^2, the slope of the sigmoid."""
    return _density(np.exp(np.copysign(x, -1.0)))


@floating
def sech_square(x: Any) -> Any:
    """1 / cosh(x)^2 = 4 e / (1 + e)^2 with e = e^(-2 |x|), the slope of tanh; of complex x too."""
    if x.dtype.kind == "c":
        return 4 * _density(np.exp(np.where(x.real < 0, 2 * x, -2 * x)))
    e = np.copysign(x, -1.0)
    e = np.exp(e + e)
    y = _density(e)
    y *= 4
    return y


@floating
def sech(x: Any) -> Any:
    """1 / cosh(x), without overflow."""
    e = np.exp(np.copysign(x, -1.0))
    return 2 * e / (1 + e * e)


@floating
def sigmoid_diff(a: Any, b: Any) -> Any:
    """1 / (1 + e^(b - a)), the difference to twice the digits; 0 where both are -inf."""
    d = np.subtract(a, b)
    part = d - a  # the difference exactly: Knuth, The Art of Computer Programming 2, 4.2.2
    lo = (a - (d - part)) - (b + part)
    e = np.exp(np.copysign(d, -1.0))
    y = np.where(d < 0, e, e.dtype.type(1)) / (e + 1)
    rest = np.where(np.abs(d) < 1e4, lo, 0) * np.where(d < 0, 1, e) / (e + 1)
    return np.where(np.equal(a, -np.inf), y.dtype.type(0), y + y * rest)


# --- the normal distribution ---------------------------------------------------------------------


def _tail(x: Any, product: Fn) -> tuple[Any, Any]:
    """e and c: e c is the probability beyond |x|, e = exp(-x^2 / 2)."""
    t = np.abs(x)
    hi, lo = product(t, t)
    e = np.exp(-0.5 * hi)
    return e - (0.5 * lo) * e, 0.5 * _erfcx(t * ROOT_HALF)


@floating
@_in_float64
def ndtr(x: Any, product: Fn) -> Any:
    """The probability that a normal number is below x."""
    e, c = _tail(x, product)
    return np.where(x < 0, e * c, 1 - e * c)


@floating
@_in_float64
def gelu_erf(x: Any, product: Fn) -> Any:
    """x times the probability that a normal number is below x."""
    e, c = _tail(x, product)
    y = (x * c) * e
    return np.where(x < 0, y, x - y)


@floating
@_in_float64
def gelu_erf_slope(x: Any, product: Fn) -> Any:
    """The derivative of `gelu_erf`: that probability, plus x times its density."""
    e, c = _tail(x, product)
    y = e * (c - np.abs(x) * INV_ROOT_2_PI)
    return np.where(x < 0, y, 1 - y)


@floating
@_in_float64
def entr_slope(x: Any, product: Fn) -> Any:
    """-log(x) - 1 = -log(e x): near its zero by what e x is more than 1."""
    hi, lo = product(x, np.full_like(x, math.e))
    more = (hi - 1) + (lo + E_REST * x)
    near = np.abs(more) < 0.5
    return -np.where(near, np.log1p(np.where(near, more, 0)), np.log(x) + 1)


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
    square, square_lo = _product(y, y)
    cube, cube_lo = _product(square, y)
    rest = (x - cube) - (cube_lo + square_lo * y)
    return y + np.where(np.abs(rest) < np.abs(x), rest / (3 * square), 0)


@floating
def erfc(x: Any) -> Any:
    """1 - erf(x); beyond 1 by the scaled function: exp(-x^2) loses digits otherwise."""
    if x.dtype.kind == "c":
        return _erfc(x)
    far = x > 1
    if not np.any(far):
        return _erfc(x)
    t = np.where(far, x, x.dtype.type(1))
    return np.where(far, exp_product(-t, t) * _erfcx(t), _erfc(x))


# --- GELU's tanh form ----------------------------------------------------------------------------


def _cubic(x: Any, product: Fn) -> tuple[Any, Any, Any]:
    """v = 2 sqrt(2 / pi) (x + 0.044715 x^3) as hi + lo, and its slope; x within `GATE_END`."""
    z, z_lo = product(x, x)
    w, w_lo = product(np.full_like(x, TANH_CUBIC), z)
    one = w + 1
    one_lo = ((1 - one) + w) + (w_lo + TANH_CUBIC * z_lo)
    s, s_lo = product(np.full_like(x, GATE_SCALE), one)
    s_lo += GATE_SCALE * one_lo + GATE_SCALE_REST * one
    v, v_lo = product(x, s)
    return v, v_lo + x * s_lo, GATE_SCALE * (1 + 3 * w)


def _gate_parts(x: Any, product: Fn) -> tuple[Any, Any, Any]:
    """-|v| as hi + lo, and the slope of v."""
    v, lo, slope = _cubic(np.clip(x, -GATE_END, GATE_END), product)
    return -np.abs(v), -np.copysign(lo, lo * v), slope


def _corrected_exp(v: Any, lo: Any) -> Any:
    e = np.exp(v)
    return e + e * lo


@floating
@_in_float64
def gelu_gate(x: Any, product: Fn) -> Any:
    """What the tanh form multiplies x by: (1 + tanh(v / 2)) / 2 = sigmoid(v)."""
    e = _corrected_exp(*_gate_parts(x, product)[:2])
    return np.where(x < 0, e, 1.0) / (1 + e)


@floating
@_in_float64
def gelu_gate_root(x: Any, product: Fn) -> Any:
    """The root of the gate's logistic density, 1 / (2 cosh(v / 2))."""
    v, lo, _ = _gate_parts(x, product)
    e = _corrected_exp(0.5 * v, 0.5 * lo)
    return e / (1 + e * e)


@floating
@_in_float64
def gelu_gate_slope(x: Any, product: Fn) -> Any:
    """The derivative of the gate."""
    v, lo, slope = _gate_parts(x, product)
    e = _corrected_exp(0.5 * v, 0.5 * lo)
    below = 1 + e * e
    return (e * slope / (below * below)) * e


@floating
@_in_float64
def gelu_tanh(x: Any, product: Fn) -> Any:
    """x times its gate."""
    return _gated(x, *_gate_parts(x, product)[:2])


@floating
@_in_float64
def gelu_tanh_slope(x: Any, product: Fn) -> Any:
    """The derivative of `gelu_tanh`."""
    return _gated_slope(np.clip(x, -GATE_END, GATE_END), *_gate_parts(x, product))
