"""Values of the rows that are made of the error function and of the normal distribution.

Far out all are exponentials of squares times erfcx, which falls slowly. The squares are computed to
twice the digits, and the exponential is applied last.

Notation: `hi + lo` a number to twice the digits; `a` |x|; `e` exp(-a^2 / 2).
"""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.dtypes import float64
from chainrule.ops.values import coefficients as c
from chainrule.ops.values.double_digits import exp_of_sum, polynomial, product, square
from chainrule.ops.values.elementary import exp_product, from_left
from chainrule.ops.values.floating import floating
from chainrule.ops.values.special_functions import special

ROOT_HALF = math.sqrt(0.5)
INV_ROOT_2_PI = 1 / math.sqrt(2 * math.pi)

_erfc, _erfcx = special("erfc"), special("erfcx")


def scaled_erfc(u: Any) -> Any:
    """erfcx(u), 0 <= u <= 28 (float64): a polynomial of (u - 4) / (u + 4) by 1 + 2 u. Shepherd &
    Laframboise, Math. Comp. 36 (1981)."""
    t = u - 4
    t /= u + 4
    y = polynomial(t, c.ERFC_F64)
    below = u + u
    below += 1
    y /= below
    return y


def _tail(x: Any) -> tuple[Any, Any, Any]:
    """a = |x| up to where all that is left is 0; e and c: e c is the probability beyond a, e =
    exp(-a^2 / 2) (float64)."""
    a = np.minimum(np.abs(x), 40)
    hi, lo = square(a)
    hi *= -0.5
    lo *= -0.5
    c = _erfcx(a * ROOT_HALF)
    c *= 0.5
    return a, exp_of_sum(hi, lo), c


def _below(x: Any) -> Any:
    """The probability that a normal number is below x, with the digits of float32 (in float64)."""
    y = _erfc(x * -ROOT_HALF)
    y *= 0.5
    return y


@floating
def ndtr(x: Any) -> Any:
    """The probability that a normal number is below x."""
    if x.dtype != float64:
        return _below(x.astype(float64)).astype(x.dtype)
    _, e, c = _tail(x)
    return from_left(x, e * c)


@floating
def gelu_erf(x: Any) -> Any:
    """x times the probability that a normal number is below x."""
    if x.dtype != float64:
        return (x * _below(x.astype(float64))).astype(x.dtype)
    a, e, c = _tail(x)
    return x * (x >= 0) - (a * c) * e


@floating
def gelu_erf_slope(x: Any) -> Any:
    """The derivative of `gelu_erf`: that probability, plus x times its density."""
    if x.dtype != float64:
        wide = np.clip(x.astype(float64), -40, 40)
        density = np.exp(-0.5 * wide * wide)
        density *= INV_ROOT_2_PI
        density *= wide
        density += _below(wide)
        return density.astype(x.dtype)
    a, e, c = _tail(x)
    part = c - a * INV_ROOT_2_PI
    m = e * part
    far = e < np.finfo(e.dtype).tiny
    if far.any():  # as for `silu_slope`
        root = exp_of_sum(*product(a[far], -0.25 * a[far]))
        m[far] = part[far] * root * root
    # near 0 erfc has more digits than its scaled form
    near = 0.5 * _erfc(np.minimum(a, 1) * ROOT_HALF) - (a * INV_ROOT_2_PI) * e
    return from_left(x, np.where(a < 1, near, m))


@floating
def erfc(x: Any) -> Any:
    """1 - erf(x); beyond 1 by the scaled function: exp(-x^2) loses digits otherwise."""
    far = x.real > 1
    if x.dtype.kind == "c" or not far.any():
        return _erfc(x)
    t = np.where(far, x, x.dtype.type(1))
    return np.where(far, exp_product(-t, t) * _erfcx(t), _erfc(x))
