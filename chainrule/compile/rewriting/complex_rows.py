"""The elementwise ops of complex numbers in real ones: one row for each label of the op table.

Values at infinities, NaN and zeros are those of NumPy, whose functions are those of C99 (annex G).
Where a formula would lose them, or overflow before its result does, the row says so.

Notation: `z w` numbers, `x y` or `a b c d` their parts, `h` the root of an exponential: it does not
overflow where the product of two of them and a number below 1 does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.compile.rewriting.pairs import Num, Pair, is_zero
from chainrule.compile.rewriting.rewriter import uniform
from chainrule.ops import elementwise as ew

INF, NAN = math.inf, math.nan


def _real(op: Any) -> Callable[..., Num]:
    return lambda x, *ys: x.m.op(op, x, *ys)


absolute, exponential, logarithm = _real(ew.abs), _real(ew.exp), _real(ew.log)
log1p, expm1, sqrt = _real(ew.log1p), _real(ew.expm1), _real(ew.sqrt)
sin, cos, sinh, cosh = _real(ew.sin), _real(ew.cos), _real(ew.sinh), _real(ew.cosh)
hypot, atan2, copysign = _real(ew.hypot), _real(ew.atan2), _real(ew.copysign)
same, isnan, isinf, isfinite = _real(ew.equal), _real(ew.isnan), _real(ew.isinf), _real(ew.isfinite)
largest, smallest, asinh = _real(ew.maximum), _real(ew.minimum), _real(ew.asinh)


def truth(z: Pair) -> Num:
    """Whether it is not 0."""
    return ~(same(z.re, 0.0) & same(z.im, 0.0))


# --- arithmetic ----------------------------------------------------------------------------------


def _divided(z: Pair, w: Pair) -> Pair:
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


def _strong(g: Pair, d: Pair) -> Pair:
    y, nothing = g * d, ~truth(g)
    return Pair(nothing.where(0.0, y.re), nothing.where(0.0, y.im))


def _power(z: Pair, w: Pair) -> Pair:
    """NumPy's: 1 for w = 0, whole powers by squares, else exp(w log z); of 0 it is 0 or NaN."""
    p = uniform(w.re.term)
    if w.imag is None and p is not None and float(p).is_integer() and abs(p) < 100:
        return _whole(z, int(p))
    y = _exp(w * _log(z))
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


# --- sizes, angles, roots ------------------------------------------------------------------------


def _abs(z: Pair) -> Num:
    return hypot(z.re, z.im)


def _angle(z: Pair) -> Num:
    return atan2(z.im, z.re)


def _scaled(z: Pair) -> tuple[Pair, Num]:
    """z times 4^k, and 2^k, such that a square of a part neither overflows nor vanishes."""
    info = np.finfo(z.re.dtype)
    up = info.maxexp // 4  # 2^(2 up) is the root of the largest number
    most = largest(absolute(z.re), absolute(z.im))
    low, high = most < 2.0 ** (-2 * up), most > 2.0 ** (info.maxexp - 3)
    root = low.where(2.0**up, high.where(0.25, 1.0)).cast(z.re.dtype)
    return Pair(z.re * (root * root), z.im * (root * root)), root


def _sqrt(z: Pair) -> Pair:
    """The root with a real part of at least 0 and the sign of y: s = sqrt((|x| + |z|) / 2)."""
    scaled, root = _scaled(z)
    x, y = scaled.re, scaled.im
    s = sqrt((absolute(x) + hypot(x, y)) * 0.5)
    other = same(s, 0.0).where(y, y / (s + s))
    right = x >= 0.0
    re = right.where(s, absolute(other)) / root
    im = right.where(other, copysign(s, y)) / root
    far = isinf(y)
    return Pair(far.where(INF, re), far.where(y, im))


def _log(z: Pair) -> Pair:
    """Near |z| = 1 by what |z|^2 is more than 1."""
    scaled, root = _scaled(z)
    x, y = absolute(z.re), absolute(z.im)
    more, less = largest(x, y), smallest(x, y)
    size = _abs(scaled)
    near = (size > 0.5) & (size < 2.0) & same(root, 1.0)
    close = log1p((more - 1.0) * (more + 1.0) + less * less) * 0.5
    return Pair(near.where(close, logarithm(size) - logarithm(root) * 2.0), _angle(z))


def _log1p(z: Pair) -> Pair:
    x = z.re + 1.0
    return Pair(logarithm(hypot(x, z.im)), atan2(z.im, x))


# --- exponentials --------------------------------------------------------------------------------


def _exp(z: Pair) -> Pair:
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


def one_of(x: Num) -> Num:
    """1 in the dtype of x."""
    return x.m.num(np.ones((), x.dtype))


def _tanh(z: Pair) -> Pair:
    """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y); far out 1 and 4 sin cos exp(-2|x|)."""
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
    return lambda z: f(z.turned()).back()


def _times(f: Callable[[Pair], Pair], scale: float) -> Callable[[Pair], Pair]:
    return lambda z: f(z) * scale


def _rsqrt(z: Pair) -> Pair:
    return _divided(Pair(one_of(z.re), None), _sqrt(z))


# --- the inverse functions: Kahan, Branch cuts for complex elementary functions (1987) -----------


def _far(z: Pair, limit: float) -> tuple[Num, Num]:
    """Whether a part is beyond, and log(2 |z|), which asinh is out there."""
    beyond = (absolute(z.re) > limit) | (absolute(z.im) > limit)
    return beyond, _log(z).re + math.log(2)


def _asin(z: Pair) -> Pair:
    x, y = z.re, z.im
    a, b = _sqrt(Pair(-x + 1.0, -y)), _sqrt(Pair(x + 1.0, y))
    beyond, size = _far(z, float(np.finfo(x.dtype).max) / 16)
    re = beyond.where(atan2(x, absolute(y)), atan2(x, a.re * b.re - a.im * b.im))
    im = beyond.where(copysign(size, y), asinh(a.re * b.im - a.im * b.re))
    return Pair(same(x, 0.0).where(x, re), im)


def _acos(z: Pair) -> Pair:
    x, y = z.re, z.im
    a, b = _sqrt(Pair(-x + 1.0, -y)), _sqrt(Pair(x + 1.0, y))
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
    there = absolute(_divided(Pair(one_of(x), None), z).re)
    there = (isinf(x) | isinf(y)).where(0.0, there)
    lost = isnan(y) | (isnan(x) & isfinite(y))
    end = lost.where(NAN, copysign(one_of(x) * (math.pi / 2), y))
    re = copysign(beyond.where(there, re), x)
    return Pair((same(x, 0.0) & isnan(y)).where(x, re), beyond.where(end, im))


ROWS: dict[str, Callable[..., Any]] = {
    "add": lambda z, w: z + w, "sub": lambda z, w: z - w, "mul": lambda z, w: z * w,
    "div": _divided, "pow": _power, "strong_mul": _strong, "positive": lambda z: z,
    "neg": lambda z: Pair(-z.re, -z.im), "square": lambda z: z * z, "reciprocal": _reciprocal,
    "abs": _abs, "angle": _angle, "sqrt": _sqrt, "rsqrt": _rsqrt,
    "exp": _exp, "expm1": _expm1, "exp2": lambda z: _exp(z * math.log(2)),
    "log": _log, "log2": _times(_log, 1 / math.log(2)), "log10": _times(_log, 1 / math.log(10)),
    "log1p": _log1p, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "sin": _round(_sinh),
    "cos": lambda z: _cosh(z.turned()), "tan": _round(_tanh), "asin": _asin, "acos": _acos,
    "atan": _round(_atanh), "asinh": _round(_asin), "acosh": _acosh, "atanh": _atanh,
    "equal": lambda z, w: same(z.re, w.re) & same(z.im, w.im),
    "not_equal": lambda z, w: ~(same(z.re, w.re) & same(z.im, w.im)),
    "isnan": lambda z: isnan(z.re) | isnan(z.im), "isinf": lambda z: isinf(z.re) | isinf(z.im),
    "isfinite": lambda z: isfinite(z.re) & isfinite(z.im), "logical_not": lambda z: ~truth(z),
    "logical_and": lambda z, w: truth(z) & truth(w), "logical_or": lambda z, w: truth(z) | truth(w),
    "logical_xor": lambda z, w: z.re.m.op(ew.logical_xor, truth(z), truth(w)),
}  # fmt: skip
"""By label: complex arguments of one dtype to the value. What has no row here runs eagerly."""
