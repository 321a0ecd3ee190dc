"""Einstein's sums as sums, products and matrix products.

Two inputs at a time, in the order that NumPy finds cheap. What both have and the sum drops is the
inner size `k` of a matrix product; what both have and it keeps are leading axes.

Notation: each array with the letters of its axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.rewriter import Rewriter, Rule
from chainrule.compile.graph.terms import Term
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import Einsum, MatMul
from chainrule.ops.reductions.reduction import Sum
from chainrule.ops.shapes.shaping import Permute, Reshape

Named = tuple[str, Term]
"""The letters of its axes, and an array."""


def _einsum(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    dtype = np.result_type(*[x.dtype for x in args])
    if dtype.kind not in "biuf":
        return None
    left = [(term, r.cast(x, dtype)) for term, x in zip(op.terms, args, strict=True)]
    for places in _path(op, args):
        some = [left[i] for i in places]
        left = [x for i, x in enumerate(left) if i not in places]
        needed = set(op.out).union(*[term for term, _ in left])
        a, b = some
        pair = _alone(r, a, needed.union(b[0])), _alone(r, b, needed.union(a[0]))
        left.append(_contract(r, *pair, needed))
    term, y = _alone(r, left[0], set(op.out))
    return r.op(Permute(tuple([term.index(c) for c in op.out])), y)


def _path(op: Any, args: Sequence[Term]) -> list[tuple[int, ...]]:
    """Which inputs are contracted one after the other; what comes of them is put last."""
    if len(args) < 3:
        return [(0, 1)] if len(args) == 2 else []
    spec = f"{','.join(op.terms)}->{op.out}"
    dummies = [np.broadcast_to(np.empty((), np.float64), x.shape) for x in args]
    path, _ = np.einsum_path(spec, *dummies, optimize="greedy")
    return _in_pairs(path[1:], len(args))


def _in_pairs(path: Sequence[Any], count: int) -> list[tuple[int, ...]]:
    """The same steps with two inputs each; a step of one input is none."""
    out: list[tuple[int, ...]] = []
    for step in path:
        places = sorted(step)
        while len(places) > 1:
            a, b = places[0], places[1]
            out.append((a, b))
            # what was made stands last now, and the others have moved up
            rest = [p - (p > a) - (p > b) for p in places[2:]]
            count -= 1
            places = [*rest, count - 1] if rest else []
    return out


def _alone(r: Rewriter, x: Named, needed: set[str]) -> Named:
    """Summed over the letters that nobody needs."""
    term, y = x
    axes = tuple([i for i, c in enumerate(term) if c not in needed])
    if not axes:
        return x
    return "".join([c for c in term if c in needed]), r.op(Sum(axes, False), y)


def _contract(r: Rewriter, x: Named, y: Named, needed: set[str]) -> Named:
    """The sum of products of two arrays over the letters that nobody needs any more."""
    (s, a), (t, b) = x, y
    both = [c for c in s if c in t]
    lead = [c for c in both if c in needed]
    inner = [c for c in both if c not in needed]
    rows, cols = [c for c in s if c not in t], [c for c in t if c not in s]
    size = dict(zip(s + t, a.shape + b.shape, strict=True))
    if not inner or not (rows or cols):
        return _elementwise(r, x, y, [*lead, *rows, *cols], inner)
    left, transpose_a = _matrix(r, x, lead, rows, inner)
    right, transpose_b = _matrix(r, y, lead, inner, cols)
    z = r.op(MatMul(transpose_a, transpose_b), left, right)
    out = "".join([*lead, *rows, *cols])
    return out, r.op(Reshape(tuple([size[c] for c in out])), z)


def _elementwise(r: Rewriter, x: Named, y: Named, kept: list[str], inner: list[str]) -> Named:
    """As a product of all elements, summed over `inner`."""
    letters = [*kept, *inner]

    def spread(term: str, z: Term) -> Term:
        order = [c for c in letters if c in term]
        z = r.op(Permute(tuple([term.index(c) for c in order])), z)
        sizes = dict(zip(order, z.shape, strict=True))
        return r.op(Reshape(tuple([sizes.get(c, 1) for c in letters])), z)

    z = r.op(ew.mul, spread(*x), spread(*y))
    axes = tuple(range(len(kept), len(letters)))
    return "".join(kept), r.op(Sum(axes, False), z) if axes else z


def _matrix(
    r: Rewriter, x: Named, lead: list[str], first: list[str], second: list[str]
) -> tuple[Term, bool]:
    """(*lead, first, second), or, if it lies so, with the last two exchanged: then turned."""
    term, y = x
    turned = bool(second) and bool(first) and term[-1] in first
    a, b = (second, first) if turned else (first, second)
    order = [*lead, *a, *b]
    y = r.op(Permute(tuple([term.index(c) for c in order])), y)
    size = dict(zip(order, y.shape, strict=True))
    m, n = [math.prod([size[c] for c in part]) for part in (a, b)]
    return r.op(Reshape((*[size[c] for c in lead], m, n)), y), turned


EINSUMS: dict[type, Rule] = {Einsum: _einsum}
"""The rule."""
