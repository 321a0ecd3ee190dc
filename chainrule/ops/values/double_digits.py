"""Arithmetic to twice the digits, where an exponential would multiply the error of its argument.

Dekker, Numer. Math. 18 (1971), in float64 where numbers are float32.

Notation: `hi + lo` a number to twice the digits.
"""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.dtypes import float64


def upper_half(x: Any) -> Any:
    """The upper 26 bits of float64 numbers: products of two such are exact."""
    return (np.array(x, copy=None, order="C").view(np.int64) & ~0x7FFFFFF).view(float64)


def split(wide: Any, dtype: Any) -> tuple[Any, Any]:
    """Numbers of float64 as sums of two of a narrower dtype."""
    hi = wide.astype(dtype)
    return hi, (wide - hi).astype(dtype)


def product(a: Any, b: Any) -> tuple[Any, Any]:
    """a b as hi + lo."""
    if a.dtype != float64:
        return split(a.astype(float64) * b, a.dtype)
    hi = a * b
    p, q = upper_half(a), upper_half(b)
    return hi, ((p * q - hi) + p * (b - q) + (a - p) * q) + (a - p) * (b - q)


def square(a: Any) -> tuple[Any, Any]:
    """a^2 as hi + lo (float64)."""
    hi = a * a
    p = upper_half(a)
    lo = p * p
    lo -= hi
    rest = a + p
    rest *= a - p
    lo += rest
    return hi, lo


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """The polynomial of x, its lowest coefficient first (Horner)."""
    *rest, last = coefficients
    y = np.full_like(x, last)
    for c in reversed(rest):
        y *= x
        y += c
    return y


def exp_of_sum(hi: Any, lo: Any) -> Any:
    """exp(hi + lo), lo at most an ulp of hi."""
    y = np.exp(hi)
    lo *= y
    y += lo
    return y
