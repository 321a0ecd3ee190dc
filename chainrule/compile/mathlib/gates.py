"""Gates: the logistic function, and x times it.

Both, and their derivatives, are fractions of one exponential of at most 1: a `Gate`, which all
functions of the same x share. `gates_f32` has a shorter way for x times a gate in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from chainrule.compile.mathlib import gates_f32
from chainrule.compile.mathlib.double_floats import (
    Two,
    constant,
    exactly,
    over,
    pick,
    product,
    quick_total,
)
from chainrule.compile.mathlib.evaluation import power_of_two, scale
from chainrule.compile.mathlib.exponential import LEAST, Exponential, exp_twofold
from chainrule.compile.mathlib.reals import Bits, Real
from chainrule.ops.values import coefficients as c

GATE_END = {32: 14.1, 64: 30.0}
"""Beyond it the gate of GELU's tanh form is 0 or 1, and the root of its slope 0."""
DEEP = -2000.0
"""Below all exponents that `GATE_END` leaves."""


@final
@dataclass(frozen=True, eq=False, slots=True)
class Gate:
    """q = e / (1 + e), e = e^-v, v >= 0. As e it is `most` times a power of two, `rest`."""

    e: Exponential
    below: Two
    """1 + e."""
    most: Real

    @classmethod
    def of(cls, e: Exponential) -> Gate:
        """That of an exponential."""
        value = e.value()
        below = quick_total(value.lift(1.0), value)
        if value.at.bits == 64:
            return cls(e, below, over(e.most, below))
        q = e.most / below.hi
        return cls(e, below, (-q).fma(below.lo, q))

    @property
    def rest(self) -> float:
        """What `most` lacks."""
        return self.e.rest

    @property
    def lesser(self) -> Real:
        """q."""
        return self.most * self.rest

    @property
    def other(self) -> Real:
        """1 - q = 1 / (1 + e)."""
        return 1.0 - self.lesser


def logistic_gate(x: Real) -> Gate:
    """That of v = |x|."""
    return x.at.shared("gate", x, lambda: Gate.of(Exponential.minus(abs(x))))


def sigmoid(x: Real) -> Real:
    """q on the left, 1 - q on the right."""
    gate = logistic_gate(x)
    return (x < 0.0).where(gate.lesser, gate.other)


def silu(x: Real) -> Real:
    """x sigmoid(x)."""
    return SILU.value(x) if x.at.bits == 64 else gates_f32.SILU.value(x)


def silu_slope(x: Real) -> Real:
    """The derivative of x sigmoid(x)."""
    return SILU.slope(x) if x.at.bits == 64 else gates_f32.SILU.slope(x)


def gelu_tanh(x: Real) -> Real:
    """x (1 + tanh(u)) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    return GELU_TANH.value(x) if x.at.bits == 64 else gates_f32.GELU_TANH.value(x)


def gelu_tanh_slope(x: Real) -> Real:
    """The derivative of `gelu_tanh`."""
    return GELU_TANH.slope(x) if x.at.bits == 64 else gates_f32.GELU_TANH.slope(x)


def gelu_gate(x: Real) -> Real:
    """sigmoid(2 u) of `gelu_tanh`: beside it, most of this has been computed."""
    return GELU_TANH.gate(x) if x.at.bits == 64 else gates_f32.GELU_TANH.gate(x)


# --- float64 -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Gated:
    """x sigmoid(u) of float64, u an odd function of x, and its derivative."""

    gate_of: Callable[[Real], Gate]
    """That of v = |u|."""
    slope_of_u: Callable[[Real], Real]
    end: float
    """Beyond it the gate is 0 or 1."""

    def value(self, x: Real) -> Real:
        """x e / (1 + e) on the left, x / (1 + e) on the right."""
        gate, left, least = self.gate_of(x), x < 0.0, x.lift(-self.end)
        top = pick(left, product((x < least).where(least, x), gate.e.most), exactly(x))
        y = over(top, gate.below) * left.where(x.lift(gate.rest), 1.0)
        return (abs(x) < math.inf).where(y.copysign(x), x * left.where(x.lift(0.0), 1.0))

    def gate(self, x: Real) -> Real:
        """q on the left, 1 - q on the right."""
        gate = self.gate_of(x)
        return (x < 0.0).where(gate.lesser, gate.other)

    def slope(self, x: Real) -> Real:
        """m = q (1 - |x| u' (1 - q)) on the left, 1 - m on the right; what vanishes is 0, not
        -0."""
        gate, x = self.gate_of(x), x.clamp(-self.end, self.end)
        m = gate.most * (-(abs(x) * self.slope_of_u(x))).fma(gate.other, 1.0) * gate.rest
        return (x < 0.0).where(m + 0.0, 1.0 - m)


def cubic(x: Real) -> Two:
    """2 u of `gelu_tanh`."""
    factor = product(x, x) * constant(x, *c.GELU_CUBIC) + x.at.real(1.0)
    u = (factor * (constant(x, *c.SQRT_2_PI).times(2.0))) * x
    plain = 2.0 * c.SQRT_2_PI[0] * x
    far = abs(x) < 1e4
    return Two(far.where(u.hi, plain), far.where(u.lo, 0.0))


def cubic_exponential(x: Real) -> tuple[Real, Bits]:
    """y and k, e^-v = y 2^k, v = |2 u| of `gelu_tanh`; as of `GATE_END` beyond it."""
    end = GATE_END[64]
    y, k = exp_twofold(-cubic(abs(x.clamp(-end, end))), DEEP)
    return y.value(), k


def _cubic_gate(x: Real) -> Gate:
    return x.at.shared(
        "cubic gate", x, lambda: Gate.of(Exponential.at_least(*cubic_exponential(x)))
    )


SILU = Gated(logistic_gate, lambda x: x.lift(1.0), -LEAST[64])
GELU_TANH = Gated(_cubic_gate, gates_f32.cubic_slope, GATE_END[64])


def gate_of_difference(u: Two) -> Real:
    """sigmoid(u), u to twice the digits (float64)."""
    negative = u.hi < 0.0
    e, k = exp_twofold(pick(negative, u, -u))
    down = k.less(-300).choose(u.hi.at.int(-300), k)
    one = exactly(u.hi.lift(1.0))
    y = pick(negative, e, one) / (one + e.times(power_of_two(down)))
    return scale(y.value(), negative.choose(k, 0))
