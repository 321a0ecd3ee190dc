"""The softmax without a second exponential: exp(x - lse) is exp(x - top) divided by its sum, and
both of these were computed for lse = log(sum(exp(x - top))) + top.

It is more exact, too: the logarithm and the addition round. Where x is -inf the softmax is 0, also
in a row whose sum is 0, because all of it is -inf, or NaN.
"""

from __future__ import annotations

import math

from chainrule.compile.rewriting.rewriter import Rewriter
from chainrule.compile.terms.terms import Term
from chainrule.ops import elementwise as ew
from chainrule.ops.families import BroadcastTo, Elementwise
from chainrule.ops.reduction import Spread, Sum
from chainrule.ops.selection import Where
from chainrule.ops.shaping import Reshape


def softmax(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    """A rule for `exp_diff`."""
    x, y = xs
    found = _parts(y)
    if found is None or t.shape != x.shape or t.dtype != x.dtype:
        return None
    shifted, total = found
    inner = shifted.args[0]
    if not _is(inner, "sub") or inner.args[0] is not x or shifted.shape != x.shape:
        return None
    if len(total.shape) != len(x.shape):
        return None
    nothing = r.op(ew.equal, x, r.constant(-math.inf))
    return r.op(Where(), nothing, r.constant(0.0), r.op(ew.div, shifted, total))


def _parts(y: Term) -> tuple[Term, Term] | None:
    """exp(x - top) and its sum, if `y` is the log of such a sum, shifted back."""
    while isinstance(y.op, Reshape | Spread | BroadcastTo):
        y = y.args[0]
    if not _is(y, "add") or not _is(y.args[0], "log"):
        return None
    total = y.args[0].args[0]
    if not isinstance(total.op, Sum) or not total.op.keepdims:
        return None
    shifted = total.args[0]
    if not _is(shifted, "exp") or not _is(shifted.args[0], "sub"):
        return None
    return (shifted, total) if shifted.args[0].args[1] is y.args[1] else None


def _is(t: Term, label: str) -> bool:
    return isinstance(t.op, Elementwise) and t.op.label == label
