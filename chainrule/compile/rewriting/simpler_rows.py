"""Rows of the op table in terms of simpler rows: what has no function in `mathlib`.

Notation: `r` the rewriter; arguments are of one dtype of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from chainrule.compile.rewriting.rewriter import Rewriter
from chainrule.compile.terms.terms import Term
from chainrule.ops import elementwise as ew
from chainrule.ops import special
from chainrule.ops.selection import Where


def where(r: Rewriter, c: Term, a: Term, b: Term) -> Term:
    """`a` where `c` holds, `b` elsewhere."""
    return r.op(Where(), c, a, b)


def _rsqrt(r: Rewriter, x: Term) -> Term:
    return r.op(ew.div, r.constant(1), r.op(ew.sqrt, x))


def _fmost(pick: Any) -> Callable[..., Term]:
    def row(r: Rewriter, a: Term, b: Term) -> Term:
        best = where(r, r.op(ew.isnan, b), a, r.op(pick, a, b))
        return where(r, r.op(ew.isnan, a), b, best)

    return row


def _xlog(log: Any) -> Callable[..., Term]:
    """0 where x is 0 and y is no NaN, whatever the logarithm is."""

    def row(r: Rewriter, x: Term, y: Term) -> Term:
        nothing = r.op(ew.equal, x, r.constant(0.0))
        nothing = r.op(ew.logical_and, nothing, r.op(ew.logical_not, r.op(ew.isnan, y)))
        return where(r, nothing, r.constant(0.0), r.op(ew.mul, x, r.op(log, y)))

    return row


def _entr(r: Rewriter, x: Term) -> Term:
    """-x log x: 0 at 0, -inf below."""
    inside = r.op(ew.neg, r.op(ew.mul, x, r.op(ew.log, x)))
    zero, below = r.op(ew.equal, x, r.constant(0.0)), r.op(ew.less, x, r.constant(0.0))
    edge = where(r, zero, r.constant(0.0), inside)
    return where(r, below, r.constant(-math.inf), edge)


def _logit(r: Rewriter, x: Term) -> Term:
    """log(x / (1 - x)); near a half, where that is near 0, by what is left of 1."""
    far = r.op(ew.log, r.op(ew.div, x, r.op(ew.sub, r.constant(1.0), x)))
    s = r.op(ew.mul, r.constant(2.0), r.op(ew.sub, x, r.constant(0.5)))
    near = r.op(ew.sub, r.op(ew.log1p, s), r.op(ew.log1p, r.op(ew.neg, s)))
    return where(r, r.op(ew.less, r.op(ew.abs, s), r.constant(0.5)), near, far)


def _one_minus_square(r: Rewriter, x: Term) -> Term:
    one = r.constant(1.0)
    return r.op(ew.mul, r.op(ew.sub, one, x), r.op(ew.add, one, x))


def _cos_atan(r: Rewriter, x: Term) -> Term:
    return r.op(ew.div, r.constant(1.0), r.op(ew.hypot, x, r.constant(1.0)))


def _distance(r: Rewriter, a: Term, b: Term) -> Term:
    """hypot(a, b), 1 in place of 0."""
    size = r.op(ew.hypot, a, b)
    return where(r, r.op(ew.equal, size, r.constant(0.0)), r.constant(1.0), size)


def _cos_angle(r: Rewriter, a: Term, b: Term) -> Term:
    return r.op(ew.div, a, _distance(r, a, b))


def _per_square(r: Rewriter, a: Term, b: Term) -> Term:
    size = _distance(r, a, b)
    return r.op(ew.div, r.op(ew.div, a, size), size)


def _softsign(r: Rewriter, x: Term) -> Term:
    return r.op(ew.div, x, r.op(ew.add, r.constant(1.0), r.op(ew.abs, x)))


def _erfinv_slope(r: Rewriter, x: Term) -> Term:
    """sqrt(pi) / 2 erfcx(erfinv(|x|)) / (1 - |x|), infinite at -1 and 1."""
    size = r.op(ew.abs, x)
    top = r.op(special.erfcx, r.op(special.erfinv, size))
    return _steep(r, math.sqrt(math.pi) / 2, top, r.op(ew.sub, r.constant(1.0), size))


def _ndtri_slope(r: Rewriter, x: Term) -> Term:
    """sqrt(pi / 2) erfcx(|ndtri(x)| / sqrt(2)) over the smaller of x and 1 - x."""
    y = r.op(ew.mul, r.op(ew.abs, r.op(special.ndtri, x)), r.constant(math.sqrt(0.5)))
    below = r.op(ew.at_most, x, r.op(ew.sub, r.constant(1.0), x))
    return _steep(r, math.sqrt(math.pi / 2), r.op(special.erfcx, y), below)


def _steep(r: Rewriter, factor: float, top: Term, below: Term) -> Term:
    y = r.op(ew.div, r.op(ew.mul, r.constant(factor), top), below)
    end = r.op(ew.equal, below, r.constant(0.0))
    return where(r, end, r.constant(math.inf), y)


def _logistic_loss(r: Rewriter, a: Term, b: Term) -> Term:
    """max(a, 0) - a b + log(1 + exp(-|a|))."""
    line = r.op(ew.sub, r.op(ew.at_least, a, r.constant(0.0)), r.op(ew.mul, a, b))
    return r.op(ew.add, line, r.op(ew.log1p, r.op(ew.exp, r.op(ew.neg, r.op(ew.abs, a)))))


def _mish_parts(r: Rewriter, x: Term) -> tuple[Term, Term, Term]:
    """p^2, 1 + p and 1 + p^2 of p = sigmoid(-x)."""
    one, p = r.constant(1.0), r.op(ew.sigmoid, r.op(ew.neg, x))
    square = r.op(ew.square, p)
    return square, r.op(ew.add, one, p), r.op(ew.add, one, square)


def _mish(r: Rewriter, x: Term) -> Term:
    _, above, below = _mish_parts(r, x)
    return r.op(ew.div, r.op(ew.mul, r.op(ew.silu, x), above), below)


def _mish_slope(r: Rewriter, x: Term) -> Term:
    """(s (1 + p) + 4 x s p^2 / (1 + p^2)) / (1 + p^2), s = sigmoid(x)."""
    x = r.op(ew.at_least, r.op(ew.at_most, x, r.constant(1e3)), r.constant(-1e3))
    square, above, below = _mish_parts(r, x)
    gate = r.op(ew.mul, r.op(ew.sigmoid, x), above)
    more = r.op(ew.div, r.op(ew.mul, r.constant(4.0), square), below)
    return r.op(ew.div, r.op(ew.add, gate, r.op(ew.mul, r.op(ew.silu, x), more)), below)


def _logit_slope(r: Rewriter, x: Term) -> Term:
    one = r.constant(1.0)
    return r.op(ew.div, r.op(ew.div, one, x), r.op(ew.sub, one, x))


def _tanhshrink(r: Rewriter, x: Term) -> Term:
    """x - tanh(x); where that cancels by the continued fraction of tanh."""
    size = r.op(ew.abs, x)
    z = r.op(ew.square, r.op(ew.at_most, size, r.constant(1.0)))
    part = r.constant(17.0)
    for n in (15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        part = r.op(ew.add, r.constant(n), r.op(ew.div, z, part))
    part = r.op(ew.div, z, part)
    near = r.op(ew.mul, x, r.op(ew.div, part, r.op(ew.add, r.constant(1.0), part)))
    far = r.op(ew.sub, x, r.op(ew.tanh, x))
    return where(r, r.op(ew.less, size, r.constant(1.0)), near, far)


ROWS: dict[str, Callable[..., Term]] = {
    "rsqrt": _rsqrt, "fmax": _fmost(ew.maximum), "fmin": _fmost(ew.minimum),
    "xlogy": _xlog(ew.log), "xlog1py": _xlog(ew.log1p), "entr": _entr, "logit": _logit,
    "one_minus_square": _one_minus_square, "cos_atan": _cos_atan, "cos_angle": _cos_angle,
    "per_square": _per_square, "softsign": _softsign, "logit_slope": _logit_slope,
    "tanhshrink": _tanhshrink, "mish": _mish, "mish_slope": _mish_slope,
    "logistic_loss": _logistic_loss, "erfinv_slope": _erfinv_slope, "ndtri_slope": _ndtri_slope,
}  # fmt: skip
"""By label: (rewriter, arguments) -> the same in simpler rows, for arguments of one dtype."""
