"""Derivatives of erfinv and ndtri, whose values SciPy computes.

All are products of powers of y and of e^(y^2), y = erfinv(x), which square the error of y. So of
arrays y is computed anew. Near 0 a polynomial gives it. Elsewhere a step of Newton's method on erfc
improves SciPy's, with an erfcx that has more digits than SciPy's. Far out e^(y^2) is erfcx(y) /
erfc(y), where erfc(y) is what is left of x to 1, exactly.

What stands for an array (the compiler's terms) takes y and erfcx as they are: they have the digits.

Notation: `y` erfinv(|x|), `rest` 1 - |x|, `growth` e^(y^2).
"""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.dtypes import float64
from chainrule.ops.values import special_coefficients as c
from chainrule.ops.values.double_digits import polynomial
from chainrule.ops.values.floating import floating
from chainrule.ops.values.normal import scaled_erfc
from chainrule.ops.values.special_functions import special_function

HALF_ROOT_PI = math.sqrt(math.pi) / 2
ROOT_HALF = math.sqrt(0.5)
ROOT_2_PI = math.sqrt(2 * math.pi)
_MIDDLE = 0.5
"""Up to here y is a polynomial."""
_MOST = 27.0
"""Beyond it erfc is 0."""


def _correct(a: Any, rest: Any, y: Any) -> Any:
    """y, with the digits that SciPy's lacks."""
    near = np.minimum(a, _MIDDLE)
    middle = near + near * polynomial(near * near, c.ERFINV_NEAR)
    far = np.minimum(y, _MOST)
    far = far + HALF_ROOT_PI * (scaled_erfc(far) - rest * np.exp(far * far))
    return np.where(a < _MIDDLE, middle, far)


def _parts(a: Any, rest: Any, y: Any) -> tuple[Any, Any]:
    """y and its growth; infinite at 1, NaN beyond."""
    if isinstance(a, np.ndarray):
        y = np.where(rest > 0, _correct(a, rest, y), y)
        far = scaled_erfc(np.minimum(y, _MOST)) / rest
    else:
        far = special_function("erfcx", "erfinv_slope")(y) / rest
    growth = np.where(a < _MIDDLE, np.exp(y * y), far)
    return y, np.where(rest == 0, math.inf, growth)


def _of_error(x: Any) -> tuple[Any, Any]:
    """`_parts` of x."""
    a = np.abs(x.astype(float64))
    return _parts(a, 1 - a, special_function("erfinv", "erfinv_slope")(a))


def _of_probability(p: Any) -> tuple[Any, Any]:
    """`_parts` of 2 p - 1."""
    p = p.astype(float64)
    y = ROOT_HALF * np.abs(special_function("ndtri", "ndtri_slope")(p))
    return _parts(np.abs(2 * (p - 0.5)), 2 * np.minimum(p, 1 - p), y)


@floating
def erfinv_slope(x: Any) -> Any:
    """The derivative of erfinv."""
    _, growth = _of_error(x)
    return (HALF_ROOT_PI * growth).astype(x.dtype)


@floating
def erfinv_bend(x: Any) -> Any:
    """The second derivative of erfinv."""
    y, growth = _of_error(x)
    bend = y * (0.5 * math.pi) * growth * growth
    return np.where(x < 0, -bend, bend).astype(x.dtype)


@floating
def ndtri_slope(x: Any) -> Any:
    """The derivative of ndtri."""
    _, growth = _of_probability(x)
    return (ROOT_2_PI * growth).astype(x.dtype)


@floating
def ndtri_bend(x: Any) -> Any:
    """The second derivative of ndtri."""
    y, growth = _of_probability(x)
    bend = y * (2 * math.sqrt(2) * math.pi) * growth * growth
    return np.where(x < 0.5, -bend, bend).astype(x.dtype)
