"""The functions by name, and how exact they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.mathlib import error as e
from chainrule.compile.mathlib import exact_functions as s
from chainrule.compile.mathlib import exponential as x
from chainrule.compile.mathlib import gates as g
from chainrule.compile.mathlib import hyperbolic as h
from chainrule.compile.mathlib import inverse as i
from chainrule.compile.mathlib import logarithm as l
from chainrule.compile.mathlib import power as p
from chainrule.compile.mathlib import slopes as sl
from chainrule.compile.mathlib import trigonometric as t
from chainrule.compile.mathlib.lanes import Lanes, SharedValues
from chainrule.compile.mathlib.reals import Real
from chainrule.compile.mathlib.special import bessel as b
from chainrule.compile.mathlib.special import gamma as ga
from chainrule.compile.mathlib.special import quantile as q
from chainrule.compile.mathlib.special import spherical as sp
from chainrule.compile.target import Target

Fn = Callable[..., Real]


@final
@dataclass(frozen=True)
class Function:
    """How to write a function in float64 and in float32, and the bounds of their errors in ulp."""

    f64: Fn
    f32: Fn
    bound64: float = 1.5
    bound32: float = 2.0


def _round_once(fn: Fn) -> Fn:
    """The float64 function on float32 numbers: right to little more than half an ulp."""
    return lambda *xs: fn(*(v.widened() for v in xs)).narrowed()


def _both(fn: Fn) -> Function:
    return Function(fn, fn)


def _wide(fn: Fn, f32: Fn | None = None) -> Function:
    return Function(fn, f32 or _round_once(fn), bound32=0.51)


def _slope(fn: Fn, f32: Fn | None = None) -> Function:
    """A product of several factors, each of them rounded."""
    return Function(fn, f32 or fn, 4.0, 4.0)


def _exact(fn: Fn) -> Function:
    return Function(fn, fn, 0.0, 0.0)


# fmt: off
TABLE: dict[str, Function] = {
    "exp": _both(x.exp), "exp2": _both(x.exp2), "expm1": _wide(x.expm1, x.expm1_f32),
    "exp_diff": _both(x.exp_diff), "sigmoid": _both(g.sigmoid), "silu": _both(g.silu),
    "exp_product": _both(x.exp_product),
    "sigmoid_diff": _wide(sl.sigmoid_diff, sl.sigmoid_diff_f32),
    "logistic_density": _both(sl.logistic_density), "sech_square": _both(sl.sech_square),
    "sech": _both(sl.sech), "silu_slope": _slope(g.silu_slope), "entr_slope": _wide(sl.entr_slope),
    "gelu_tanh": _both(g.gelu_tanh), "gelu_gate": _both(g.gelu_gate),
    "gelu_gate_slope": _slope(sl.gelu_gate_slope), "gelu_gate_density": _both(sl.gelu_gate_density),
    "gelu_gate_tanh": _wide(sl.gelu_gate_tanh),
    "gelu_tanh_slope": _slope(g.gelu_tanh_slope),
    "gelu_erf_slope": _slope(e.gelu_erf_slope, e.gelu_erf_slope_f32),
    "ndtr": _slope(e.ndtr, e.ndtr_f32),
    "log": _both(l.log), "log2": _wide(l.log2, l.log2_f32), "log10": _wide(l.log10, l.log10_f32),
    "log1p": _wide(l.log1p, l.log1p_f32), "logaddexp": _wide(l.logaddexp, l.logaddexp_f32),
    "softplus": _wide(l.softplus, l.softplus_f32),
    "pow": _wide(p.pow, p.pow_f32), "cbrt": _wide(p.cbrt), "hypot": _wide(p.hypot, p.hypot_f32),
    "sin": _both(t.sin), "cos": _both(t.cos), "tan": _wide(t.tan),
    "asin": _wide(i.asin), "acos": _wide(i.acos), "atan": _wide(i.atan, i.atan_f32),
    "atan2": _wide(i.atan2, i.atan2_f32),
    "sinh": _wide(h.sinh, h.sinh_f32), "cosh": _wide(h.cosh, h.cosh_f32), "tanh": _both(h.tanh),
    "asinh": _wide(h.asinh, h.asinh_f32), "acosh": _wide(h.acosh, h.acosh_f32),
    "atanh": _wide(h.atanh, h.atanh_f32),
    "erf": Function(e.erf, e.erf_f32), "erfc": Function(e.erfc, e.erfc_f32),
    "gelu_erf": Function(e.gelu_erf, e.gelu_erf_f32),
    "erfcx": _wide(q.erfcx), "log_ndtr": _wide(q.log_ndtr),
    "erfinv": _wide(q.erfinv), "ndtri": _wide(q.ndtri),
    "i0": _wide(b.i0), "i0e": _wide(b.i0e), "i1": _wide(b.i1), "i1e": _wide(b.i1e),
    "iv2": _wide(b.i2), "ive2": _wide(b.i2e),
    "lgamma": _wide(ga.lgamma), "digamma": _wide(ga.digamma),
    **{f"polygamma{n}": _wide(ga.polygamma(n)) for n in ga.ORDERS},
    **{f"spherical_jn{n}": _wide(sp.spherical_jn(n)) for n in sp.ORDERS},
    "fmod": _exact(s.fmod), "remainder": _exact(s.remainder),
    "floor_divide": _exact(s.floor_divide), "copysign": _exact(s.copysign),
    "round": _exact(s.round), "sign": _exact(s.sign), "nextafter": _exact(s.nextafter),
}
# fmt: on


def emit(
    name: str, builder: Any, *xs: Any, target: Target, made: SharedValues | None = None
) -> Any:
    """Writes the instructions of the function `name` of `xs`; returns the value.

    `xs` are float or double, or vectors of one of them of any width; all of one type, which is the
    type of the result. A slope is cheaper beside its function, which has left in `made` what they
    share. Raises KeyError for a name that is not in `TABLE`.
    """
    function = TABLE[name]
    at = Lanes(builder, xs[0].type, target, made)
    fn = function.f64 if at.bits == 64 else function.f32
    return fn(*(Real(at, v) for v in xs)).v


def error_bound(name: str, dtype: Any) -> float:
    """The largest error of the function, in ulp of its exact value; 0 where it is always exact."""
    function = TABLE[name]
    return function.bound64 if np.dtype(dtype).itemsize == 8 else function.bound32
