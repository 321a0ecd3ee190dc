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

import math
import operator
from typing import TYPE_CHECKING, Any

from chainrule.ops.rows import Functions, wide
from chainrule.ops.rows import elementwise as op
from chainrule.ops.values import numbers
from chainrule.ops.values.constants import GATE_END, GATE_SCALE, GATE_UP, MISH_END, TANH_CUBIC

if TYPE_CHECKING:
    import numpy as np

    from chainrule.ops.values import elementary as values
    from chainrule.ops.values import gates as gates
    from chainrule.ops.values import normal as normal
    from chainrule.ops.values import plain as plain_values
else:  # names of functions: NumPy is loaded when the first of them is needed
    np = Functions("numpy")
    values, plain_values = (
        Functions("chainrule.ops.values.elementary"),
        Functions("chainrule.ops.values.plain"),
    )
    normal, gates = (
        Functions("chainrule.ops.values.normal"),
        Functions("chainrule.ops.values.gates"),
    )

SQRT_2 = math.sqrt(2)
SQRT_2_PI = math.sqrt(2 / math.pi)
LN_2, LOG2_E, LOG10_E = math.log(2), 1.4426950408889634, 0.4342944819032518


def _density_of_number(x: float, decay: int, scale: int) -> float:
    """scale e / (1 + e)^2, e = e^(-decay |x|), of one number."""
    e = math.exp(-decay * math.fabs(x))
    return scale * e / ((1 + e) * (1 + e))


# fmt: off
# --- arithmetic
add          = op(np.add,          lambda: 1, lambda: 1, scalar=lambda a, b: a + b)
sub          = op(np.subtract,     lambda: 1, lambda: -1, name="sub", scalar=lambda a, b: a - b)
mul          = op(np.multiply,     lambda b: b, lambda a: a, name="mul", scalar=lambda a, b: a * b)
div          = op(np.divide,       lambda b: _inverse(b), lambda y, b: -y / b, name="div", singular=True, scalar=lambda a, b: a / b)
pow          = op(np.power,        lambda a, b: _power_slope(a, b), lambda y, a: y * log(a + (a == 0) * (y - y == 0)), name="pow", singular=True)
neg          = op(np.negative,     lambda: -1, name="neg", scalar=lambda x: -x)
positive     = op(np.positive,     lambda: 1, scalar=lambda x: x)
reciprocal   = op(np.reciprocal,   lambda y: -y * y, singular=True, scalar=lambda x: 1 / x)
square       = op(np.square,       lambda x: 2 * x, scalar=lambda x: x * x)
floor_divide = op(np.floor_divide, lambda: 0, lambda: 0, scalar=lambda a, b: a // b)
remainder    = op(np.remainder,    lambda: 1, lambda a, b: -floor_divide(a, b), scalar=lambda a, b: a % b)

# --- roots, exponentials, logarithms
sqrt      = op(np.sqrt,      lambda y: 0.5 / y, singular=True)
cbrt      = op(values.cbrt,  wide(lambda x: cbrt_slope(x)), name="cbrt", singular=True)
exp       = op(np.exp,       lambda y: y)
exp2      = op(np.exp2,      lambda x: _exp2_slope(x))
expm1     = op(np.expm1,     lambda x: exp(x))
log       = op(np.log,       lambda x: 1 / x, singular=True)
log2      = op(np.log2,      lambda x: LOG2_E / x, singular=True)
log10     = op(np.log10,     lambda x: LOG10_E / x, singular=True)
log1p     = op(np.log1p,     lambda x: log1p_slope(x), singular=True)
logaddexp = op(values.logaddexp, lambda a, b: sigmoid_diff(a, b), lambda a, b: sigmoid_diff(b, a), name="logaddexp", scalar=numbers.logaddexp)

exp_diff  = op(plain_values.exp_diff,    lambda y: y, lambda y: -y, name="exp_diff", scalar=lambda a, b: 0.0 if a == -math.inf else math.exp(a - b))

# --- trigonometric and hyperbolic
sin   = op(np.sin,     lambda x: cos(x))
cos   = op(np.cos,     lambda x: -sin(x))
tan   = op(np.tan,     lambda y: 1 + y * y)
asin  = op(np.arcsin,  wide(lambda x: 1 / sqrt(one_minus_square(x))), name="asin", singular=True)
acos  = op(np.arccos,  wide(lambda x: -1 / sqrt(one_minus_square(x))), name="acos", singular=True)
atan  = op(np.arctan,  lambda x: atan_slope(x), name="atan")
sinh  = op(np.sinh,    lambda x: cosh(x))
cosh  = op(np.cosh,    lambda x: sinh(x))
tanh  = op(np.tanh,    lambda x: sech_square(x))
asinh = op(np.arcsinh, wide(lambda x: cos_atan(x)), name="asinh")
acosh = op(np.arccosh, wide(lambda x: 1 / (sqrt(x - 1) * sqrt(x + 1))), name="acosh", singular=True)
atanh = op(np.arctanh, wide(lambda x: 1 / one_minus_square(x)), name="atanh", singular=True)
atan2 = op(np.arctan2, wide(lambda a, b: per_square(b, a)), wide(lambda a, b: -per_square(a, b)), name="atan2", singular=True)
hypot = op(np.hypot,   wide(lambda a, b: cos_angle(a, b)), wide(lambda a, b: cos_angle(b, a)))

# --- steps and kinks
abs       = op(np.abs,      lambda x: _toward(x), name="abs", scalar=math.fabs)
sign      = op(plain_values.sign, lambda: 0, scalar=lambda x: (x > 0) - (x < 0) if x == x else x)
floor     = op(np.floor,    lambda: 0, scalar=lambda x: float(math.floor(x)))
ceil      = op(np.ceil,     lambda: 0, scalar=lambda x: float(math.ceil(x)))
trunc     = op(np.trunc,    lambda: 0, scalar=lambda x: float(math.trunc(x)))
round     = op(np.rint,     lambda: 0, name="round", scalar=lambda x: float(x.__round__()))
maximum   = op(plain_values.maximum,    lambda a, b: (a > b) + 0.5 * (a == b), lambda a, b: (b > a) + 0.5 * (a == b), scalar=lambda a, b: a if a >= b or a != a else b)
minimum   = op(plain_values.minimum,    lambda a, b: (a < b) + 0.5 * (a == b), lambda a, b: (b < a) + 0.5 * (a == b), scalar=lambda a, b: a if a <= b or a != a else b)
at_least  = op(plain_values.at_least, lambda a, b: a >= b, lambda a, b: a < b, name="at_least", scalar=lambda a, b: a if a >= b or a != a else b)
at_most   = op(plain_values.at_most, lambda a, b: a <= b, lambda a, b: a > b, name="at_most", scalar=lambda a, b: a if a <= b or a != a else b)
copysign  = op(np.copysign, lambda a, b: sign(a) * copysign(1.0, b), lambda: 0)
nextafter = op(np.nextafter, lambda: 1, lambda: 0)

# --- deep learning
relu      = op(plain_values.relu, lambda y: y > 0, name="relu", scalar=lambda x: x if x > 0 or x != x else 0.0)
sigmoid   = op(values.sigmoid, lambda x: logistic_density(x), name="sigmoid", scalar=lambda x: 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x)))
silu      = op(values.silu, lambda x: silu_slope(x), name="silu", scalar=numbers.silu)
mish      = op(values.mish, lambda x: mish_slope(x), name="mish", scalar=numbers.mish)
softsign  = op(values.softsign, lambda x: softsign_slope(x), name="softsign", scalar=numbers.softsign)
tanhshrink = op(values.tanhshrink, wide(lambda x: square(tanh(x))), name="tanhshrink", scalar=numbers.tanhshrink)
softplus  = op(plain_values.softplus, lambda x: sigmoid(x), name="softplus", scalar=numbers.softplus)
logistic_loss = op(values.logistic_loss, lambda a, b: (1 - b) * sigmoid(a) - b * sigmoid(-a), lambda a: -a, name="logistic_loss", scalar=numbers.logistic_loss)
erf       = op(plain_values.erf,  lambda x: 2 / math.sqrt(math.pi) * exp_product(-x, x), name="erf")
erfc      = op(normal.erfc, lambda x: -2 / math.sqrt(math.pi) * exp_product(-x, x), name="erfc")
gelu_erf  = op(normal.gelu_erf, lambda x: gelu_erf_slope(x), name="gelu_erf", scalar=numbers.gelu_erf)
gelu_gate = op(gates.gelu_gate, wide(lambda x: gelu_gate_slope(x)), name="gelu_gate", scalar=numbers.gelu_gate)
gelu_tanh = op(gates.gelu_tanh, lambda x: gelu_tanh_slope(x), name="gelu_tanh", scalar=numbers.gelu_tanh)

# --- slopes of rows above, each with a derivative that does not cancel
cbrt_slope       = op(values.cbrt_slope, lambda y, x: -2 / 3 * y / x, name="cbrt_slope", singular=True, scalar=numbers.cbrt_slope)
log1p_slope      = op(values.log1p_slope, wide(lambda x: -square(log1p_slope(x))), name="log1p_slope", singular=True, scalar=lambda x: 1 / (1 + x))
atan_slope       = op(values.atan_slope, wide(lambda x: _atan_bend(x)), name="atan_slope", scalar=numbers.atan_slope)
softsign_slope   = op(values.softsign_slope, wide(lambda x: -2 * sign(x) * softsign_slope(x) / (1 + abs(x))), name="softsign_slope", scalar=numbers.softsign_slope)
one_minus_square = op(plain_values.one_minus_square, lambda x: -2 * x, name="one_minus_square", scalar=lambda x: (1 - x) * (1 + x))
cos_atan         = op(plain_values.cos_atan, lambda y, x: -(x * y) * (y * y), name="cos_atan", scalar=lambda x: 1 / math.hypot(x, 1))
cos_angle        = op(plain_values.cos_angle, lambda a, b: _cross(b, b, a, b), lambda a, b: -_cross(a, b, a, b), name="cos_angle", scalar=lambda a, b: a / (math.hypot(a, b) or 1))
per_square       = op(plain_values.per_square, lambda a, b: _less_squares(a, b), lambda a, b: -2 * per_square(a, b) * per_square(b, a), name="per_square", scalar=lambda a, b: a / (math.hypot(a, b) or 1) / (math.hypot(a, b) or 1))
exp_product      = op(values.exp_product, wide(lambda a, b: _times_root_twice(b, exp_product(0.5 * a, b))), wide(lambda a, b: _times_root_twice(a, exp_product(0.5 * a, b))), name="exp_product", scalar=numbers.exp_product)
sigmoid_diff     = op(values.sigmoid_diff, wide(lambda a, b: sigmoid_diff(a, b) * sigmoid_diff(b, a)), wide(lambda a, b: -sigmoid_diff(a, b) * sigmoid_diff(b, a)), name="sigmoid_diff", scalar=numbers.sigmoid_diff)
logistic_density = op(values.logistic_density, wide(lambda x: -logistic_density(x) * tanh(0.5 * x)), name="logistic_density", scalar=lambda x: _density_of_number(x, 1, 1))
sech_square      = op(values.sech_square, wide(lambda x: -2 * sech_square(x) * tanh(x)), name="sech_square", scalar=lambda x: _density_of_number(x, 2, 4))
gelu_erf_slope   = op(normal.gelu_erf_slope, wide(lambda x: _gelu_erf_bend(x)), name="gelu_erf_slope", scalar=numbers.gelu_erf_slope)
gelu_gate_slope  = op(gates.gelu_gate_slope, wide(lambda x: _gate_slope_slope(x)), name="gelu_gate_slope", scalar=numbers.gelu_gate_slope)
gelu_gate_density = op(gates.gelu_gate_density, lambda y, x: _gate_density_slope(y, x), name="gelu_gate_density", scalar=numbers.gelu_gate_density)
gelu_gate_tanh   = op(gates.gelu_gate_tanh, wide(lambda x: 2 * gelu_gate_slope(x)), name="gelu_gate_tanh", scalar=numbers.gelu_gate_tanh)
gelu_tanh_slope  = op(gates.gelu_tanh_slope, wide(lambda x: _gelu_tanh_bend(x)), name="gelu_tanh_slope", scalar=numbers.gelu_tanh_slope)
silu_slope       = op(values.silu_slope, wide(lambda x: _times_root_twice(2 - x * tanh(0.5 * x), 0.5 * sech(0.5 * x))), name="silu_slope", scalar=numbers.silu_slope)
mish_slope       = op(values.mish_slope, wide(lambda x: _mish_bend(x)), name="mish_slope", scalar=numbers.mish_slope)
sech             = op(values.sech, lambda y, x: -y * tanh(x), name="sech", scalar=numbers.sech)

# --- comparisons, logic, bits, tests: no derivative
equal               = op(np.equal,         scalar=operator.eq)
not_equal           = op(np.not_equal,     scalar=operator.ne)
less                = op(np.less,          scalar=operator.lt)
less_equal          = op(np.less_equal,    scalar=operator.le)
greater             = op(np.greater,       scalar=operator.gt)
greater_equal       = op(np.greater_equal, scalar=operator.ge)
logical_and         = op(np.logical_and,   scalar=lambda a, b: bool(a and b))
logical_or          = op(np.logical_or,    scalar=lambda a, b: bool(a or b))
logical_xor         = op(np.logical_xor,   scalar=lambda a, b: bool(a) != bool(b))
logical_not         = op(np.logical_not,   scalar=operator.not_)
bitwise_and         = op(np.bitwise_and,   scalar=operator.and_)
bitwise_or          = op(np.bitwise_or,    scalar=operator.or_)
bitwise_xor         = op(np.bitwise_xor,   scalar=operator.xor)
bitwise_invert      = op(np.invert,        name="bitwise_invert", scalar=lambda x: ~x)
bitwise_left_shift  = op(np.left_shift,    name="bitwise_left_shift", scalar=operator.lshift)
bitwise_right_shift = op(np.right_shift,   name="bitwise_right_shift", scalar=operator.rshift)
isnan, isinf, isfinite     = op(np.isnan), op(np.isinf), op(np.isfinite)
signbit                    = op(np.signbit, scalar=lambda x: math.copysign(1.0, x) < 0)
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
        from chainrule.ops.families import conj  # needs NumPy

        return conj(x) / _not_zero(abs(x))
    return sign(x)


def _not_zero(d: Any) -> Any:
    """`d`, with 1 in place of 0: makes 0 / 0 come out as 0."""
    return d + (d == 0)


def _exp2_slope(x: Any) -> Any:
    """2^x log(2), which is finite for some x for which 2^x is not; beyond 1 x - 1 is exact."""
    if hasattr(x, "dtype") and x.dtype.kind == "c":
        return exp2(x) * LN_2
    beyond = x > 1
    half = exp2(x - beyond) * LN_2
    return half + half * beyond


def _power_slope(a: Any, b: Any) -> Any:
    """b a^(b - 1); what the rounding of b - 1 loses (Knuth, TAOCP 2, 4.2.2) is an exponent too."""
    less = b - 1
    part = less - b
    lost = (b - (less - part)) - (1 + part)
    slope = b * a ** (less + (b == 0))
    if lost.__class__ in (int, float) and lost == 0:
        return slope
    rest = _detach(1 + lost * log(abs(a) + (a == 0)))
    return slope * rest ** (rest - rest == 0)  # 1 where it is not finite: nothing was lost there


def _detach(x: Any) -> Any:
    """`x` without a derivative."""
    return x.detach() if hasattr(x, "detach") else x


def _cross(p: Any, q: Any, a: Any, b: Any) -> Any:
    """p q / (a^2 + b^2)^(3/2), smallest factors last."""
    size = _not_zero(hypot(a, b))
    return p / size * (q / size) / size


def _less_squares(a: Any, b: Any) -> Any:
    """(b^2 - a^2) / (a^2 + b^2)^2: the derivative of a / (a^2 + b^2)."""
    size = _not_zero(hypot(a, b))
    return (b - a) / size * ((a + b) / size) / size / size


def _times_root_twice(factor: Any, root: Any) -> Any:
    """factor root^2, the root applied last, twice: where its square has lost digits already, or is
    0, the product need not have."""
    return factor * root * root


def _atan_bend(x: Any) -> Any:
    """-2 x / (1 + x^2)^2."""
    y = atan_slope(x)
    return -2 * (x * y) * y


def _gelu_erf_bend(x: Any) -> Any:
    """(2 - x^2) exp(-x^2 / 2) / sqrt(2 pi)."""
    root = exp_product(-0.25 * x, x)
    return (2 * root - x * (x * root)) * (root / math.sqrt(2 * math.pi))


def _mish_bend(x: Any) -> Any:
    """4 E (4 + 8 E + 6 E^2 + 2 E^3 + x (2 + 2 E - 3 E^2 - 2 E^3)) / (2 + 2 E + E^2)^3, E = e^x; on
    the right both by E^6, in powers of e = e^-x."""
    x = at_least(at_most(x, MISH_END), -MISH_END)
    right = x >= 0
    left = 1 - right
    root = exp((0.5 * left - 0.5 * right) * x)
    e = root * root
    on_left = (4 + 2 * x) + e * ((8 + 2 * x) + e * ((6 - 3 * x) + e * (2 - 2 * x)))
    on_right = (2 - 2 * x) + e * ((6 - 3 * x) + e * ((8 + 2 * x) + e * (4 + 2 * x)))
    below = (left + 1) + e * (2 + e * (right + 1))
    most = 4 * (left * on_left + right * e * on_right) / (below * below * below)
    return _times_root_twice(most, root)


# GELU's tanh form is x sigmoid(v), v = 2 sqrt(2 / pi) (x + 0.044715 x^3)


def _where_gated(x: Any) -> Any:
    """x where v changes the gate; what is beyond has the same gate, and a slope of 0."""
    return at_least(at_most(x, GATE_END), -GATE_END)


def _gate_exponent_slope(x: Any) -> Any:
    """Derivative of v, of an x that is `_where_gated`."""
    return GATE_SCALE + (3 * GATE_SCALE * TANH_CUBIC) * (x * x)


def _gate_density_slope(y: Any, x: Any) -> Any:
    """Derivative of the gate's logistic density y, a multiple of e^-|v| / (1 + e^-|v|)^2."""
    x = _where_gated(x)
    return -y * gelu_gate_tanh(x) * _gate_exponent_slope(x)


def _gate_bend(x: Any) -> Any:
    """v'' - v'^2 tanh(v / 2)."""
    most = (3 * GATE_SCALE * TANH_CUBIC) * (x * x)
    slope = GATE_SCALE + most
    part = slope - GATE_SCALE  # what the sum has lost: Knuth, TAOCP 2, 4.2.2
    lost = (GATE_SCALE - (slope - part)) + (most - part)
    once = slope * gelu_gate_tanh(x)
    return ((6 * GATE_SCALE * TANH_CUBIC) * x - slope * once) - 2 * lost * once


def _gate_slope_slope(x: Any) -> Any:
    """Second derivative of the gate."""
    x = _where_gated(x)
    return _gate_bend(x) * gelu_gate_density(x) * (1 / GATE_UP)


def _gelu_tanh_bend(x: Any) -> Any:
    """Second derivative of x times the gate."""
    x = _where_gated(x)
    bend = 2 * _gate_exponent_slope(x) + x * _gate_bend(x)
    return bend * gelu_gate_density(x) * (1 / GATE_UP)
