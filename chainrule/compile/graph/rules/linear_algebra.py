"""Ops on matrices in terms of factorizations, which LAPACK computes.

| op | is |
|---|---|
| `pinv` | the transposed factors of the singular value decomposition, values inverted |
"""

from __future__ import annotations

from typing import Any

from chainrule.compile.graph.rules.rewriter import Rewriter, Rule
from chainrule.compile.graph.terms import Term
from chainrule.op import Pick
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import MatMul
from chainrule.ops.linalg.singular import Pinv, Svd
from chainrule.ops.reduction import Extremum
from chainrule.ops.selection import Where
from chainrule.ops.shaping import Reshape


def _pinv(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """(U diag(s) W)^+ = WT diag(1 / s) UT, with 0 for 1 / s up to `rtol` times the largest s."""
    x, rtol = args
    if x.dtype.char not in "fd" or 0 in x.shape:
        return None
    factors = r.op(Svd(False), x)
    u, s, w = [r.op(Pick(i), factors) for i in range(3)]
    each = r.op(Reshape((*rtol.shape, 1)), rtol) if rtol.shape else rtol
    most = r.op(Extremum(True, (len(s.shape) - 1,), True), s)
    counts = r.op(ew.greater, s, r.op(ew.mul, each, most))
    inverse = r.op(Where(), counts, r.op(ew.div, r.constant(1.0), s), r.constant(0.0))
    scaled = r.op(ew.mul, u, r.op(Reshape((*s.shape[:-1], 1, s.shape[-1])), inverse))
    return r.op(MatMul(True, True), w, scaled)


MATRICES: dict[type, Rule] = {Pinv: _pinv}
"""The rules, by class of op."""
