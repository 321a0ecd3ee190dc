"""The table of elementwise ops: value, then one partial derivative per argument.

A partial reads what its parameters name: `y` the output, `x` the input of a unary op, `a b` the
inputs of a binary one. It is written in ops, so it runs on floats, arrays, tensors and
placeholders. Rows marked singular have a partial that can be infinite or NaN at a finite point;
there a cotangent of exactly 0 contributes exactly 0. Conventions at kinks are listed in
docs/conventions.md.

Formulas: Abramowitz & Stegun, Handbook of Mathematical Functions, chapters 4 (elementary functions)
and 7 (error function), unless a row says otherwise.
"""

# The rows' lambdas have no annotations: that is the table's form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import importlib
import math
from functools import wraps
from typing import Any

import numpy as np

from chainrule.dtypes import NARROW, check_real, rounded_once
from chainrule.ops.families import conj
from chainrule.ops.families import elementwise as op

SQRT_2 = math.sqrt(2)
SQRT_2_PI = math.sqrt(2 / math.pi)
LN_2, LN_10 = math.log(2), math.log(10)
TANH_CUBIC = 0.044715  # Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2


@rounded_once
def _gelu(x: Any) -> Any:
    return x * (0.5 * _erfc(-x / SQRT_2))


@rounded_once
def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(SQRT_2_PI * (x + TANH_CUBIC * x * x * x)))


@rounded_once
def _gelu_gate(x: Any) -> Any:
    """What the tanh form multiplies x by: (1 + tanh(u)) / 2 = sigmoid(2 u)."""
    return _expit(2 * SQRT_2_PI * (x + TANH_CUBIC * x * x * x))


@rounded_once
def _exp_diff(a: Any, b: Any) -> Any:
    """exp(a - b), and 0 where a is -inf, whatever b is: what a sum of exponentials shares out."""
    y = np.exp(np.subtract(a, b))
    if np.isnan(y).any():
        return np.where(np.equal(a, -np.inf), np.zeros((), y.dtype), y)
    return y


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, np.zeros((), np.result_type(x)))


def _special(name: str) -> Any:
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


def ordered(fn: Any) -> Any:
    """`fn`, which picks by size, for real numbers: NumPy orders complex numbers, too."""

    @wraps(fn, updated=())
    def picked(*xs: Any) -> Any:
        y = fn(*xs)
        if y.dtype.char in "FD":
            check_real(fn.__name__, y)
        return y

    return picked


_maximum, _minimum = ordered(np.maximum), ordered(np.minimum)


_expit = _special("expit")
_erf = _special("erf")
_erfc = _special("erfc")


# fmt: off
# --- arithmetic
add          = op(np.add,          lambda: 1, lambda: 1, scalar=lambda a, b: a + b)
sub          = op(np.subtract,     lambda: 1, lambda: -1, name="sub", scalar=lambda a, b: a - b)
mul          = op(np.multiply,     lambda b: b, lambda a: a, name="mul", scalar=lambda a, b: a * b)
div          = op(np.divide,       lambda b: _inverse(b), lambda y, b: -y / b, name="div", singular=True, scalar=lambda a, b: a / b)
pow          = op(np.power,        lambda a, b: b * a ** (b - 1 + (b == 0)), lambda y, a: y * log(a + (a == 0) * (y - y == 0)), name="pow", singular=True)
neg          = op(np.negative,     lambda: -1, name="neg", scalar=lambda x: -x)
positive     = op(np.positive,     lambda: 1, scalar=lambda x: x)
reciprocal   = op(np.reciprocal,   lambda y: -y * y, singular=True, scalar=lambda x: 1 / x)
square       = op(np.square,       lambda x: 2 * x, scalar=lambda x: x * x)
floor_divide = op(np.floor_divide, lambda: 0, lambda: 0, scalar=lambda a, b: a // b)
remainder    = op(np.remainder,    lambda: 1, lambda a, b: -floor_divide(a, b), scalar=lambda a, b: a % b)

# --- roots, exponentials, logarithms
sqrt      = op(np.sqrt,      lambda y: 0.5 / y, singular=True)
cbrt      = op(np.cbrt,      lambda y: 1 / (3 * y * y), singular=True)
exp       = op(np.exp,       lambda y: y)
exp2      = op(np.exp2,      lambda y: y * LN_2)
expm1     = op(np.expm1,     lambda y: y + 1)
log       = op(np.log,       lambda x: 1 / x, singular=True)
log2      = op(np.log2,      lambda x: 1 / (x * LN_2), singular=True)
log10     = op(np.log10,     lambda x: 1 / (x * LN_10), singular=True)
log1p     = op(np.log1p,     lambda x: 1 / (1 + x), singular=True)
logaddexp = op(np.logaddexp, lambda y, a: exp_diff(a, y), lambda y, b: exp_diff(b, y))

exp_diff  = op(_exp_diff,    lambda y: y, lambda y: -y, name="exp_diff", scalar=lambda a, b: 0.0 if a == -math.inf else math.exp(a - b))

# --- trigonometric and hyperbolic
sin   = op(np.sin,     lambda x: cos(x))
cos   = op(np.cos,     lambda x: -sin(x))
tan   = op(np.tan,     lambda y: 1 + y * y)
asin  = op(np.arcsin,  lambda x: 1 / sqrt(1 - x * x), name="asin", singular=True)
acos  = op(np.arccos,  lambda x: -1 / sqrt(1 - x * x), name="acos", singular=True)
atan  = op(np.arctan,  lambda x: 1 / (1 + x * x), name="atan")
sinh  = op(np.sinh,    lambda x: cosh(x))
cosh  = op(np.cosh,    lambda x: sinh(x))
tanh  = op(np.tanh,    lambda y: 1 - y * y)
asinh = op(np.arcsinh, lambda x: 1 / sqrt(1 + x * x), name="asinh")
acosh = op(np.arccosh, lambda x: 1 / (sqrt(x - 1) * sqrt(x + 1)), name="acosh", singular=True)
atanh = op(np.arctanh, lambda x: 1 / (1 - x * x), name="atanh", singular=True)
atan2 = op(np.arctan2, lambda a, b: _per_square(b, a, b), lambda a, b: -_per_square(a, a, b), name="atan2", singular=True)
hypot = op(np.hypot,   lambda y, a: a / _not_zero(y), lambda y, b: b / _not_zero(y))

# --- steps and kinks
abs       = op(np.abs,      lambda x: _toward(x), name="abs", scalar=math.fabs)
sign      = op(ordered(np.sign), lambda: 0, scalar=lambda x: (x > 0) - (x < 0) if x == x else x)
floor     = op(np.floor,    lambda: 0, scalar=lambda x: float(math.floor(x)))
ceil      = op(np.ceil,     lambda: 0, scalar=lambda x: float(math.ceil(x)))
trunc     = op(np.trunc,    lambda: 0, scalar=lambda x: float(math.trunc(x)))
round     = op(np.rint,     lambda: 0, name="round", scalar=lambda x: float(x.__round__()))
maximum   = op(_maximum,    lambda a, b: (a > b) + 0.5 * (a == b), lambda a, b: (b > a) + 0.5 * (a == b), scalar=lambda a, b: a if a >= b or a != a else b)
minimum   = op(_minimum,    lambda a, b: (a < b) + 0.5 * (a == b), lambda a, b: (b < a) + 0.5 * (a == b), scalar=lambda a, b: a if a <= b or a != a else b)
at_least  = op(lambda a, b: _maximum(a, b), lambda a, b: a >= b, lambda a, b: a < b, name="at_least", scalar=lambda a, b: a if a >= b or a != a else b)
at_most   = op(lambda a, b: _minimum(a, b), lambda a, b: a <= b, lambda a, b: a > b, name="at_most", scalar=lambda a, b: a if a <= b or a != a else b)
copysign  = op(np.copysign, lambda a, b: sign(a) * copysign(1.0, b), lambda: 0)
nextafter = op(np.nextafter, lambda: 1, lambda: 0)

# --- deep learning
relu      = op(lambda x: _maximum(x, 0), lambda y: y > 0, name="relu", scalar=lambda x: x if x > 0 or x != x else 0.0)
sigmoid   = op(_expit, lambda y: y * (1 - y), name="sigmoid", scalar=lambda x: 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x)))
silu      = op(rounded_once(lambda x: x * _expit(x)), lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))), name="silu")
softplus  = op(_softplus, lambda x: sigmoid(x), name="softplus")
erf       = op(_erf,  lambda x: 2 / math.sqrt(math.pi) * exp(-x * x), name="erf")
erfc      = op(_erfc, lambda x: -2 / math.sqrt(math.pi) * exp(-x * x), name="erfc")
gelu_erf  = op(_gelu, lambda x: 0.5 * erfc(-x / SQRT_2) + x * exp(-0.5 * x * x) / math.sqrt(2 * math.pi), name="gelu_erf")
gelu_gate = op(_gelu_gate, lambda y, x: y * (1 - y) * _gate_exponent_slope(x), name="gelu_gate")
gelu_tanh = op(_gelu_tanh, lambda x: _gelu_tanh_slope(x, gelu_gate(x)), name="gelu_tanh")

# --- comparisons, logic, bits, tests: no derivative
equal, not_equal           = op(np.equal), op(np.not_equal)
less, less_equal           = op(np.less), op(np.less_equal)
greater, greater_equal     = op(np.greater), op(np.greater_equal)
logical_and, logical_or    = op(np.logical_and), op(np.logical_or)
logical_xor, logical_not   = op(np.logical_xor), op(np.logical_not)
bitwise_and, bitwise_or    = op(np.bitwise_and), op(np.bitwise_or)
bitwise_xor, bitwise_invert = op(np.bitwise_xor), op(np.invert, name="bitwise_invert")
bitwise_left_shift         = op(np.left_shift, name="bitwise_left_shift")
bitwise_right_shift        = op(np.right_shift, name="bitwise_right_shift")
isnan, isinf, isfinite     = op(np.isnan), op(np.isinf), op(np.isfinite)
signbit                    = op(np.signbit)
# fmt: on


def power(a: Any, b: Any) -> Any:
    """a ** b, broadcast; a square, the most common power, as such."""
    return square(a) if b.__class__ is int and b == 2 else pow(a, b)


def _inverse(b: Any) -> Any:
    """1 / b, IEEE's infinity also where b is a Python number that is 0."""
    if b.__class__ in (int, float) and b == 0:
        return math.copysign(math.inf, b)
    return 1 / b


def _toward(x: Any) -> Any:
    """Where |x| grows: the sign of x, for complex numbers the conjugate of x / |x|."""
    if hasattr(x, "dtype") and x.dtype.kind == "c":
        return conj(x) / _not_zero(abs(x))
    return sign(x)


def _not_zero(d: Any) -> Any:
    """`d`, with 1 in place of 0: makes 0 / 0 come out as 0."""
    return d + (d == 0)


def _per_square(p: Any, a: Any, b: Any) -> Any:
    """p / (a^2 + b^2) without squaring, which could overflow; 0 where both are 0."""
    length = _not_zero(hypot(a, b))
    return p / length / length


def _gate_exponent_slope(x: Any) -> Any:
    """Derivative of 2 u, u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    return 2 * SQRT_2_PI + 6 * SQRT_2_PI * TANH_CUBIC * (x * x)


def _gelu_tanh_slope(x: Any, y: Any) -> Any:
    """Derivative of x y, y the gate of GELU's tanh form."""
    return y + x * y * (1 - y) * _gate_exponent_slope(x)  # x y first: 0 far to the left
