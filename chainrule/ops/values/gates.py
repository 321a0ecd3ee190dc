"""Values of the rows of GELU's tanh form, x sigmoid(v), v a cubic of x.

Notation: `hi + lo` a number to twice the digits; `root` e^(-|v| / 2).
"""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.dtypes import float64
from chainrule.ops.values.constants import (
    GATE_END,
    GATE_SCALE,
    GATE_SCALE_REST,
    GATE_UP,
    TANH_CUBIC,
)
from chainrule.ops.values.double_digits import exp_of_sum, product, split
from chainrule.ops.values.elementary import gated_slope, times_sigmoid
from chainrule.ops.values.floating import floating

UP, UP_REST = math.log(GATE_UP), 2.8321565589135527e-16


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


def _density(v: Any, lo: Any) -> Any:
    """`gelu_gate_density`, given v as hi + lo."""
    far = np.abs(v)
    up = UP - far
    part = up - UP  # the sum exactly: Knuth, The Art of Computer Programming 2, 4.2.2
    rest = (UP - (up - part)) - (far + part)
    lo = (rest + UP_REST) - np.copysign(lo, v * lo)
    y = np.exp(up)
    e = y * (1 / GATE_UP)
    below = 1 + e
    lost = (1 - below) + e
    y /= below * below
    return y + y * ((lo * (1 - e) - 2 * lost) / below)


@floating
def gelu_gate_density(x: Any) -> Any:
    """The gate's logistic density e / (1 + e)^2, e = e^-|v|, times `GATE_UP`."""
    return _density(*_cubic(np.clip(x, -GATE_END, GATE_END)))


@floating
def gelu_gate_tanh(x: Any) -> Any:
    """tanh(v / 2)."""
    v, _ = _cubic(np.clip(x, -GATE_END, GATE_END))
    return np.tanh(0.5 * v)


@floating
def gelu_gate_slope(x: Any) -> Any:
    """The derivative of the gate."""
    x = np.clip(x, -GATE_END, GATE_END)
    return _density(*_cubic(x)) * _gate_exponent_slope(x) * (1 / GATE_UP)


@floating
def gelu_tanh(x: Any) -> Any:
    """x times its gate."""
    return times_sigmoid(x, _gate_parts(x)[1])


@floating
def gelu_tanh_slope(x: Any) -> Any:
    """The derivative of `gelu_tanh`."""
    x, root = _gate_parts(x)
    return gated_slope(x, root, _gate_exponent_slope(x))
