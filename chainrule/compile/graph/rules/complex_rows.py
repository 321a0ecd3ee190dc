"""The elementwise ops of complex numbers in real ones: one row for each label of the op table.

Notation: `z w` numbers, `x y` or `a b c d` their parts.
"""

# The table's lambdas have no annotations: that is its form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.complex_functions import (
    FUNCTIONS,
    NAN,
    absolute,
    exp_of,
    isfinite,
    isinf,
    isnan,
    log_of,
    one_of,
    same,
    sqrt_of,
)
from chainrule.compile.graph.rules.pair_arithmetic import Num, Pair
from chainrule.compile.graph.rules.rewriter import uniform
from chainrule.ops import elementwise as ew


def truth(z: Pair) -> Num:
    """Whether it is not 0."""
    return ~(same(z.re, 0.0) & same(z.im, 0.0))


# --- arithmetic ----------------------------------------------------------------------------------


def _divide(z: Pair, w: Pair) -> Pair:
    """Smith's division (Comm. ACM 5, 1962): by the larger part of w first, as NumPy does it."""
    (a, b), (c, d) = (z.re, z.im), (w.re, w.im)
    real = absolute(c) >= absolute(d)
    more, less = real.where(c, d), real.where(d, c)
    ratio = less / more
    scale = 1.0 / (more + less * ratio)
    re = real.where(a + b * ratio, a * ratio + b) * scale
    im = real.where(b - a * ratio, b * ratio - a) * scale
    nothing = same(c, 0.0) & same(d, 0.0)
    zero = absolute(c)
    return Pair(nothing.where(a / zero, re), nothing.where(b / zero, im))


def _reciprocal(z: Pair) -> Pair:
    x, y = z.re, z.im
    real = absolute(x) >= absolute(y)
    ratio = real.where(y / x, x / y)
    scale = real.where(x + y * ratio, x * ratio + y)
    return Pair(real.where(1.0, ratio) / scale, -real.where(ratio, 1.0) / scale)


def _same(z: Pair, w: Pair) -> Num:
    return same(z.re, w.re) & same(z.im, w.im)


def _strong(g: Pair, d: Pair) -> Pair:
    y, nothing = g * d, ~truth(g)
    return Pair(nothing.where(0.0, y.re), nothing.where(0.0, y.im))


def _power(z: Pair, w: Pair) -> Pair:
    """NumPy's: 1 for w = 0, whole powers by squares, else exp(w log z); of 0 it is 0 or NaN."""
    p = uniform(w.re.term)
    if w.imag is None and p is not None and float(p).is_integer() and abs(p) < 100:
        return _whole(z, int(p))
    y = exp_of(w * log_of(z))
    zero = ~truth(z)
    there = (w.re > 0.0).where(0.0, NAN).cast(z.re.dtype)
    y = Pair(zero.where(there, y.re), zero.where(there, y.im))
    first = ~truth(w)
    return Pair(first.where(1.0, y.re), first.where(0.0, y.im))


def _whole(z: Pair, p: int) -> Pair:
    m, dtype = z.re.m, z.re.dtype
    if p == 0:
        return Pair(m.num(np.ones((), dtype)), None)
    y = _squares(z, abs(p))
    if p > 0:
        return y
    y, zero = _reciprocal(y), ~truth(z)
    return Pair(zero.where(NAN, y.re), zero.where(NAN, y.im))


def _squares(z: Pair, p: int) -> Pair:
    if p == 1:
        return z
    half = _squares(z, p // 2)
    return half * half * z if p % 2 else half * half


def _one_more(z: Pair) -> Pair:
    return Pair(z.re + 1.0, z.im)


def _inverse(z: Pair) -> Pair:
    return _divide(Pair(one_of(z.re), None), z)


def _sech_square(z: Pair) -> Pair:
    """4 e / (1 + e)^2, e = exp(-2 z) or exp(2 z), whichever is smaller."""
    left = z.re < 0.0
    e = exp_of(Pair(absolute(z.re) * -2.0, left.where(z.im, -z.im) * 2.0))
    more = _one_more(e)
    y = _divide(e, more * more)
    return Pair(y.re * 4.0, y.im * 4.0)


ROWS: dict[str, Callable[..., Any]] = {
    **FUNCTIONS,
    "add": lambda z, w: z + w, "sub": lambda z, w: z - w, "mul": lambda z, w: z * w,
    "div": _divide, "pow": _power, "strong_mul": _strong, "positive": lambda z: z,
    "neg": lambda z: Pair(-z.re, -z.im), "square": lambda z: z * z, "reciprocal": _reciprocal,
    "rsqrt": lambda z: _inverse(sqrt_of(z)),
    "atan_slope": lambda z: _inverse(_one_more(z * z)),
    "log1p_slope": lambda z: _inverse(_one_more(z)),
    "cos_atan": lambda z: _inverse(sqrt_of(_one_more(z * z))),
    "one_minus_square": lambda z: Pair(1.0 - z.re, -z.im) * _one_more(z),
    "sech_square": _sech_square,
    "equal": _same, "not_equal": lambda z, w: ~_same(z, w),
    "isnan": lambda z: isnan(z.re) | isnan(z.im), "isinf": lambda z: isinf(z.re) | isinf(z.im),
    "isfinite": lambda z: isfinite(z.re) & isfinite(z.im), "logical_not": lambda z: ~truth(z),
    "logical_and": lambda z, w: truth(z) & truth(w), "logical_or": lambda z, w: truth(z) | truth(w),
    "logical_xor": lambda z, w: z.re.m.op(ew.logical_xor, truth(z), truth(w)),
}  # fmt: skip
"""By label: complex arguments of one dtype to the value. What has no row here runs eagerly."""
