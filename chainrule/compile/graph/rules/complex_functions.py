"""Functions of complex numbers in real ones: roots, logarithms, exponentials and their inverses.

Values at infinities, NaN and zeros are those of C99 (annex G), which are NumPy's. Where a formula
would lose them, or overflow before its result does, the function says so.

Notation: `z` a number, `x y` its parts, `h` the root of an exponential. (Two roots times a number
below 1 do not overflow before they have to.)
"""

# The table's lambdas have no annotations: that is its form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.pair_arithmetic import Num, Pair
from chainrule.ops import elementwise as ew

INF, NAN = math.inf, math.nan


def real(op: Any) -> Callable[..., Num]:
    """The op as a function of real terms."""

    def function(x: Num, *ys: Num | float) -> Num:
        return x.m.op(op, x, *ys)

    return function


absolute, exponential, logarithm = real(ew.abs), real(ew.exp), real(ew.log)
log1p, expm1, sqrt, asinh = real(ew.log1p), real(ew.expm1), real(ew.sqrt), real(ew.asinh)
sin, cos, sinh, cosh = real(ew.sin), real(ew.cos), real(ew.sinh), real(ew.cosh)
hypot, atan2, copysign = real(ew.hypot), real(ew.atan2), real(ew.copysign)
same, isnan, isinf, isfinite = real(ew.equal), real(ew.isnan), real(ew.isinf), real(ew.isfinite)
largest, smallest = real(ew.maximum), real(ew.minimum)


def one_of(x: Num) -> Num:
    """1 in the dtype of x."""
    return x.m.num(np.ones((), x.dtype))


# --- sizes, angles, roots ------------------------------------------------------------------------


def abs_of(z: Pair) -> Num:
    """|z|."""
    return hypot(z.re, z.im)


def angle_of(z: Pair) -> Num:
    """In (-pi, pi]."""
    return atan2(z.im, z.re)


def _scale(z: Pair) -> tuple[Pair, Num]:
    """z times 4^k, and 2^k, such that a square of a part neither overflows nor vanishes."""
    info = np.finfo(z.re.dtype)
    up = info.maxexp // 4  # 2^(2 up) is the root of the largest number
    most = largest(absolute(z.re), absolute(z.im))
    low, high = most < 2.0 ** (-2 * up), most > 2.0 ** (info.maxexp - 3)
    root = low.where(2.0**up, high.where(0.25, 1.0)).cast(z.re.dtype)
    return Pair(z.re * (root * root), z.im * (root * root)), root


def sqrt_of(z: Pair) -> Pair:
    """The root with a real part of at least 0 and the sign of y: s = sqrt((|x| + |z|) / 2)."""
    scaled, root = _scale(z)
    x, y = scaled.re, scaled.im
    s = sqrt((absolute(x) + hypot(x, y)) * 0.5)
    other = same(s, 0.0).where(y, y / (s + s))
    right = x >= 0.0
    re = right.where(s, absolute(other)) / root
    im = right.where(other, copysign(s, y)) / root
    far = isinf(y)
    return Pair(far.where(INF, re), far.where(y, im))


def log_of(z: Pair) -> Pair:
    """Near |z| = 1 by what |z|^2 is more than 1."""
    scaled, root = _scale(z)
    x, y = absolute(z.re), absolute(z.im)
    more, less = largest(x, y), smallest(x, y)
    size = abs_of(scaled)
    near = (size > 0.5) & (size < 2.0) & same(root, 1.0)
    close = log1p((more - 1.0) * (more + 1.0) + less * less) * 0.5
    return Pair(near.where(close, logarithm(size) - logarithm(root) * 2.0), angle_of(z))


def _log1p(z: Pair) -> Pair:
    x = z.re + 1.0
    return Pair(logarithm(hypot(x, z.im)), atan2(z.im, x))


# --- exponentials --------------------------------------------------------------------------------


def exp_of(z: Pair) -> Pair:
    """exp(x) (cos y + i sin y)."""
    x, y = z.re, z.im
    h = exponential(x * 0.5)
    re, im = h * (h * cos(y)), h * (h * sin(y))
    im = same(y, 0.0).where(y, im)
    lost, high = ~isfinite(y), same(x, INF)
    low = lost & same(x, -INF)
    re = low.where(0.0, (lost & high).where(INF, re))
    return Pair(re, low.where(0.0, im))


def _expm1(z: Pair) -> Pair:
    x, y = z.re, z.im
    half = sin(y * 0.5)
    return Pair(expm1(x) * cos(y) - half * half * 2.0, exponential(x) * sin(y))


def _both(z: Pair) -> tuple[Num, Num, Num, Num]:
    """sinh x cos y, cosh x sin y, cosh x cos y, sinh x sin y."""
    x, y = z.re, z.im
    far = -math.log(np.finfo(x.dtype).eps)  # from there on both are exp(|x|) / 2
    beyond = absolute(x) > far
    h = exponential(absolute(x) * 0.5)
    c, s = cos(y), sin(y)

    def times(f: Num, g: Num, sign: Num | float) -> Num:
        return beyond.where(h * (h * g * 0.5) * sign, f * g)

    one = copysign(x.m.num(np.ones((), x.dtype)), x)
    sh, ch = sinh(x), cosh(x)
    return times(sh, c, one), times(ch, s, 1.0), times(ch, c, 1.0), times(sh, s, one)


def _sinh(z: Pair) -> Pair:
    x, y = z.re, z.im
    re, im, _, _ = _both(z)
    lost = ~isfinite(y)
    re = (lost & (same(x, 0.0) | isinf(x))).where(x, re)
    return Pair(re, same(y, 0.0).where(y, im))


def _cosh(z: Pair) -> Pair:
    x, y = z.re, z.im
    _, _, re, im = _both(z)
    re = (isinf(x) & ~isfinite(y)).where(INF, re)
    flat = isnan(im) & (same(x, 0.0) | same(y, 0.0))
    return Pair(re, flat.where(same(y, 0.0).where(copysign(one_of(x), x) * y, x), im))


def _tanh(z: Pair) -> Pair:
    """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y); far out its limit, which is 1, and
    4 sin y cos y exp(-2 |x|)."""
    x, y = z.re, z.im
    far = 1.0 - math.log(np.finfo(x.dtype).eps)
    beyond = absolute(x) > far
    sh, ch, s, c = sinh(x), cosh(x), sin(y), cos(y)
    below = sh * sh + c * c
    e = exponential(-absolute(x))
    re = beyond.where(copysign(one_of(x), x), sh * ch / below)
    im = beyond.where(s * c * 4.0 * e * e, s * c / below)
    lost = ~isfinite(y)
    re = (lost & isfinite(x)).where(same(x, 0.0).where(x, NAN), re)
    im = (isinf(x) & lost).where(0.0, im)
    return Pair(re, same(y, 0.0).where(y, im))


def _round(f: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """-i f(i z): the trigonometric function of a hyperbolic one."""
    return lambda z: f(z.times_i()).back()


def _times(f: Callable[[Pair], Pair], scale: float) -> Callable[[Pair], Pair]:
    return lambda z: f(z) * scale


# --- the inverse functions: Kahan, Branch cuts for complex elementary functions (1987) -----------


def _far(z: Pair, limit: float) -> tuple[Num, Num]:
    """Whether a part is beyond, and log(2 |z|), which asinh is out there."""
    beyond = (absolute(z.re) > limit) | (absolute(z.im) > limit)
    return beyond, log_of(z).re + math.log(2)


def _asin(z: Pair) -> Pair:
    x, y = z.re, z.im
    a, b = sqrt_of(Pair(-x + 1.0, -y)), sqrt_of(Pair(x + 1.0, y))
    beyond, size = _far(z, float(np.finfo(x.dtype).max) / 16)
    re = beyond.where(atan2(x, absolute(y)), atan2(x, a.re * b.re - a.im * b.im))
    im = beyond.where(copysign(size, y), asinh(a.re * b.im - a.im * b.re))
    return Pair(same(x, 0.0).where(x, re), im)


def _acos(z: Pair) -> Pair:
    x, y = z.re, z.im
    a, b = sqrt_of(Pair(-x + 1.0, -y)), sqrt_of(Pair(x + 1.0, y))
    beyond, size = _far(z, float(np.finfo(x.dtype).max) / 16)
    re = beyond.where(atan2(absolute(y), x), atan2(a.re, b.re) * 2.0)
    im = beyond.where(copysign(size, -y), asinh(b.re * a.im - b.im * a.re))
    return Pair(same(x, 0.0).where(math.pi / 2, re), im)


def _acosh(z: Pair) -> Pair:
    """acos turned to where its real part is not negative."""
    w = _acos(z)
    return Pair(absolute(w.im), copysign(w.re, z.im))


def _atanh(z: Pair) -> Pair:
    """log1p(4 x / |1 - z|^2) / 4; where squares overflow, 1 / z, and near 1 by logarithms."""
    x, y = z.re, z.im
    info = np.finfo(x.dtype)
    limit = math.sqrt(float(info.max)) / 4
    beyond = (absolute(x) > limit) | (absolute(y) > limit)
    less, more = -absolute(x) + 1.0, absolute(x) + 1.0
    apart = less * less + y * y
    close = (logarithm(hypot(more, y)) - logarithm(hypot(less, y))) * 0.5
    near = apart < float(info.tiny) / float(info.eps)
    re = near.where(close, log1p(absolute(x) * 4.0 / apart) * 0.25)
    im = atan2(y * 2.0, less * more - y * y) * 0.5
    size = hypot(x, y)
    there = (isinf(x) | isinf(y)).where(0.0, absolute(x) / size / size)
    lost = isnan(y) | (isnan(x) & isfinite(y))
    end = lost.where(NAN, copysign(one_of(x) * (math.pi / 2), y))
    re = copysign(beyond.where(there, re), x)
    return Pair((same(x, 0.0) & isnan(y)).where(x, re), beyond.where(end, im))


FUNCTIONS: dict[str, Callable[[Pair], Any]] = {
    "abs": abs_of, "angle": angle_of, "sqrt": sqrt_of, "exp": exp_of,
    "expm1": _expm1, "exp2": lambda z: exp_of(z * math.log(2)), "log": log_of,
    "log2": _times(log_of, 1 / math.log(2)), "log10": _times(log_of, 1 / math.log(10)),
    "log1p": _log1p, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "sin": _round(_sinh),
    "cos": lambda z: _cosh(z.times_i()), "tan": _round(_tanh), "asin": _asin, "acos": _acos,
    "atan": _round(_atanh), "asinh": _round(_asin), "acosh": _acosh, "atanh": _atanh,
}  # fmt: skip
"""By label of the op table."""
