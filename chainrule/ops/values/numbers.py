"""Values of rows on Python numbers, where neither `math` nor an operator has them.

The formulas are those of `values.py`, which says why they are stated so.

Notation: `hi + lo` a number to twice the digits.
"""

from __future__ import annotations

import math

from chainrule.ops.values.constants import (
    GATE_END,
    GATE_SCALE,
    GATE_SCALE_REST,
    GATE_UP,
    TANH_CUBIC,
)

_ROOT_HALF = math.sqrt(0.5)
_ROOT_HALF_REST = -4.833646656726457e-17
"""What is missing in `_ROOT_HALF`."""
_INV_ROOT_2_PI = 1 / math.sqrt(2 * math.pi)
_FAR = 1e3
"""Beyond it e^-x is 0."""
_SPLITTER = 2.0**27 + 1
_MOST = 1e150
"""Up to here the parts of a product to twice the digits do not overflow."""


def _product(a: float, b: float) -> tuple[float, float]:
    """a b as hi + lo: Dekker, Numer. Math. 18 (1971)."""
    hi = a * b
    if not (abs(a) < _MOST and abs(b) < _MOST):
        return hi, 0.0
    p, q = _SPLITTER * a, _SPLITTER * b
    p, q = p - (p - a), q - (q - b)
    return hi, ((p * q - hi) + p * (b - q) + (a - p) * q) + (a - p) * (b - q)


def exp_product(a: float, b: float) -> float:
    """exp(a b), the product to twice the digits."""
    hi, lo = _product(a, b)
    y = math.exp(hi)
    more = y * lo
    return y + more if math.isfinite(more) else y


def _decay(x: float, rate: float = 1.0) -> float:
    """e^(-rate |x|)."""
    return math.exp(-rate * abs(x))


def _from_left(x: float, m: float) -> float:
    """m where x is negative, elsewhere 1 - m."""
    return m if x < 0 else 1 - m


# --- the logistic function -----------------------------------------------------------------------


def softplus(x: float) -> float:
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(_decay(x))


def logaddexp(a: float, b: float) -> float:
    """log(e^a + e^b)."""
    if a == b:
        return a + math.log(2)
    return max(a, b) + math.log1p(_decay(a - b)) if a - b == a - b else a - b


def logistic_loss(a: float, b: float) -> float:
    """-b log(s) - (1 - b) log(1 - s), s = sigmoid(a)."""
    return (max(a, 0.0) - a * b) + math.log1p(_decay(a))


def sigmoid_diff(a: float, b: float) -> float:
    """1 / (1 + e^(b - a)), the difference to twice the digits; 0 where both are -inf."""
    if a == -math.inf:
        return 0.0
    d = a - b
    part = d - a
    lo = (a - (d - part)) - (b + part) if abs(d) < 1e4 else 0.0
    e = _decay(d)
    y = (1.0 if d >= 0 else e) / (1 + e)
    return y + y * lo * (1.0 if d < 0 else e) / (1 + e)


def sech(x: float) -> float:
    """1 / cosh(x), without overflow."""
    e = _decay(x)
    return 2 * e / (1 + e * e)


def _times_sigmoid(x: float, root: float) -> float:
    """x sigmoid(u), root = e^(-|u| / 2)."""
    left = 1.0 if x >= 0 else root
    return x / (1 + root * root) * left * left


def _gated_slope(x: float, root: float, slope: float = 1.0) -> float:
    """The derivative of x sigmoid(u), `slope` that of u."""
    e = root * root
    m = ((1 - min(abs(x), _FAR) * slope) + e) / ((1 + e) * (1 + e))
    return _from_left(x, m * root * root)


def silu(x: float) -> float:
    """x / (1 + e^-x)."""
    return _times_sigmoid(x, _decay(x, 0.5))


def silu_slope(x: float) -> float:
    """The derivative of `silu`."""
    return _gated_slope(x, _decay(x, 0.5))


def _mish_parts(x: float) -> tuple[float, float, float, float]:
    """p = sigmoid(-x), 1 + p^2, and root and 1 + e of sigmoid(x) = root^2 / (1 + e)."""
    root = _decay(x, 0.5)
    e = root * root
    p = (1.0 if x < 0 else e) / (1 + e)
    return p, 1 + p * p, 1.0 if x >= 0 else root, 1 + e


def mish(x: float) -> float:
    """x tanh(log(1 + e^x))."""
    p, square, root, below = _mish_parts(x)
    return x * (1 + p) / (square * below) * root * root


def mish_slope(x: float) -> float:
    """The derivative of `mish`."""
    x = min(max(x, -_FAR), _FAR)
    root = _decay(x, 0.5)
    e = root * root
    middle, one = 4 * x + 6, 4 * (x + 1)
    if x < 0:
        below = 2 + e * (2 + e)
        return (one + e * (middle + e * (4 + e))) / (below * below) * root * root
    below = 1 + e * (2 + 2 * e)
    return (1 + e * (4 + e * (middle + e * one))) / (below * below)


def atan_slope(x: float) -> float:
    """1 / (1 + x^2)."""
    y = 1 / math.hypot(x, 1)
    return y * y


def softsign_slope(x: float) -> float:
    """1 / (1 + |x|)^2."""
    y = 1 / (1 + abs(x))
    return y * y


def softsign(x: float) -> float:
    """x / (1 + |x|)."""
    return x / (1 + abs(x))


def tanhshrink(x: float) -> float:
    """x - tanh(x); where that cancels by the continued fraction of tanh."""
    if not abs(x) < 1:
        return x - math.tanh(x)
    z = x * x
    part = 17.0
    for n in (15, 13, 11, 9, 7, 5, 3):
        part = n + z / part
    part = z / part
    return x * (part / (1 + part))


# --- GELU ----------------------------------------------------------------------------------------


def _tail(a: float) -> float:
    """The probability that a normal number is beyond a >= 0."""
    u, lost = _product(a, _ROOT_HALF)
    lost += a * _ROOT_HALF_REST
    return 0.5 * math.erfc(u) - lost * math.exp(-u * u) / math.sqrt(math.pi)


def gelu_erf(x: float) -> float:
    """x times the probability that a normal number is below x."""
    a = min(abs(x), 40.0)
    return (x if x >= 0 else 0.0) - a * _tail(a)


def gelu_erf_slope(x: float) -> float:
    """The derivative of `gelu_erf`."""
    a = min(abs(x), 40.0)
    return _from_left(x, _tail(a) - a * _INV_ROOT_2_PI * exp_product(-0.5 * a, a))


def _gate_parts(x: float) -> tuple[float, float]:
    """x within `GATE_END`, and e^(-|v| / 2), v = 2 sqrt(2 / pi) (x + 0.044715 x^3)."""
    x = min(max(x, -GATE_END), GATE_END)
    z, z_lo = _product(x, x)
    w, w_lo = _product(TANH_CUBIC, z)
    one = w + 1
    one_lo = ((1 - one) + w) + (w_lo + TANH_CUBIC * z_lo)
    s, s_lo = _product(GATE_SCALE, one)
    s_lo += GATE_SCALE * one_lo + GATE_SCALE_REST * one
    v, v_lo = _product(x, s)
    half = math.copysign(0.5, v)
    y = math.exp(-half * v)
    return x, y - y * half * (v_lo + x * s_lo)


def _gate_exponent_slope(x: float) -> float:
    return GATE_SCALE + x * x * (3 * GATE_SCALE * TANH_CUBIC)


def gelu_gate(x: float) -> float:
    """What GELU's tanh form multiplies x by: sigmoid(v)."""
    _, root = _gate_parts(x)
    left = 1.0 if x >= 0 else root
    return left / (1 + root * root) * left


def gelu_gate_density(x: float) -> float:
    """e / (1 + e)^2, e = e^-|v|, times `GATE_UP`."""
    _, root = _gate_parts(x)
    below = 1 + root * root
    return root * GATE_UP * root / (below * below)


def gelu_gate_tanh(x: float) -> float:
    """tanh(v / 2)."""
    x = min(max(x, -GATE_END), GATE_END)
    return math.tanh(0.5 * GATE_SCALE * (x + TANH_CUBIC * x * x * x))


def gelu_gate_slope(x: float) -> float:
    """The derivative of the gate."""
    x, root = _gate_parts(x)
    below = 1 + root * root
    return (root * _gate_exponent_slope(x) / (below * below)) * root


def gelu_tanh(x: float) -> float:
    """x times its gate."""
    return _times_sigmoid(x, _gate_parts(x)[1])


def gelu_tanh_slope(x: float) -> float:
    """The derivative of `gelu_tanh`."""
    x, root = _gate_parts(x)
    return _gated_slope(x, root, _gate_exponent_slope(x))


def cbrt_slope(x: float) -> float:
    """The derivative of the cube root."""
    y = math.copysign(abs(x) ** (1 / 3), x)
    return 1 / (3 * y * y) if x else math.inf
