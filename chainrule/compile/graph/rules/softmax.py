"""The softmax without a second exponential: exp(x - y) is exp(x) divided by its sum, and both of
these were computed for y = log(sum(exp(x))).

It is more exact, too: the logarithm rounds. Where x is -inf the softmax is 0, also in a row whose
sum is 0, because all of it is -inf, or NaN.
"""

from __future__ import annotations

import math

from chainrule.compile.graph.rules.rewriter import Rewriter
from chainrule.compile.graph.terms import Term
from chainrule.ops import elementwise as ew
from chainrule.ops.families import BroadcastTo, Elementwise
from chainrule.ops.reduction import Spread, Sum
from chainrule.ops.selection import Where
from chainrule.ops.shaping import Reshape


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


def _is(t: Term, label: str) -> bool:
    return isinstance(t.op, Elementwise) and t.op.label == label
