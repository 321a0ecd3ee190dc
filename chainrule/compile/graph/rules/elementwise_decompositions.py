"""Functions of NumPy and SciPy in terms of simpler rows: those that `mathlib` does not have.

Notation: `r` the rewriter; arguments are of one dtype of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from chainrule.compile.graph.rules.rewriter import Rewriter, uniform
from chainrule.compile.graph.terms import Term
from chainrule.ops import elementwise as ew
from chainrule.ops.families import BroadcastTo, Elementwise
from chainrule.ops.indexing.selection import Where
from chainrule.ops.reductions.reduction import Spread, Sum
from chainrule.ops.shapes.shaping import Reshape


def where(r: Rewriter, c: Term, a: Term, b: Term) -> Term:
    """`a` where `c` holds, `b` elsewhere."""
    return r.op(Where(), c, a, b)


def _fmost(pick: Any) -> Callable[..., Term]:
    def row(r: Rewriter, a: Term, b: Term) -> Term:
        best = where(r, r.op(ew.isnan, b), a, r.op(pick, a, b))
        return where(r, r.op(ew.isnan, a), b, best)

    return row


def _cbrt_slope(r: Rewriter, x: Term) -> Term:
    """1 / (3 y y) of y = cbrt(x), whose code has the digits that eager mode gets by a step more."""
    y = r.op(ew.cbrt, x)
    return r.op(ew.div, r.constant(1.0), r.op(ew.mul, r.op(ew.mul, r.constant(3.0), y), y))


ROWS: dict[str, Callable[..., Term]] = {
    "fmax": _fmost(ew.maximum), "fmin": _fmost(ew.minimum), "cbrt_slope": _cbrt_slope,
}  # fmt: skip
"""By label: (rewriter, arguments) -> the same in simpler rows, for arguments of one dtype."""


# --- softmax without a second exponential ---------------------------------------------------------
# these were computed for y = log(sum(exp(x))).
#
# It is more exact, too: the logarithm rounds. Where x is -inf the softmax is 0, also in a row whose
# sum is 0, because all of it is -inf, or NaN.


def softmax(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    """A rule for `exp_diff`."""
    x, y = xs
    while isinstance(y.op, Reshape | Spread | BroadcastTo):
        y = y.args[0]
    if not _is(y, "log") or t.shape != x.shape or t.dtype != x.dtype:
        return None
    (total,) = y.args
    if not isinstance(total.op, Sum) or not total.op.keepdims:
        return None
    (grown,) = total.args
    if not _is(grown, "exp") or grown.args[0] is not x:
        return None
    # less its largest element x is -inf where it was that before, and that needs no memory
    bare = x.args[0] if _is(x, "sub") and x.args[0].shape == x.shape else x
    nothing = r.op(ew.equal, bare, r.constant(-math.inf))
    return r.op(Where(), nothing, r.constant(0.0), r.op(ew.div, grown, total))


# --- the slope of a root's inverse ----------------------------------------------------------------
# x^-1.5 is the slope of x^-0.5, which a norm's forward pass has computed.


def power(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    """A rule for `pow`: x^-1.5 is x^-0.5 / x, with IEEE's values at -0 and -inf."""
    x, p = xs
    if uniform(p) != -1.5 or t.dtype.kind != "f" or x.dtype != t.dtype:
        return None
    root = r.op(ew.pow, x, r.constant(-0.5))
    quotient = r.op(ew.div, root, r.op(ew.add, x, r.constant(0.0)))
    return where(r, r.op(ew.equal, x, r.constant(-math.inf)), r.constant(0.0), quotient)


def _is(t: Term, label: str) -> bool:
    return isinstance(t.op, Elementwise) and t.op.label == label
