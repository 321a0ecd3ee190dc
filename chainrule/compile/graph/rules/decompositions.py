"""Ops in terms of simpler ones: what has loops is enough to say what these are.

| op | is |
|---|---|
| `logsumexp` | log of a sum of exponentials |
| `shift` | the maximum where that is finite |
| `norm` | root of a sum of squares, in wider numbers, or scaled where that matters |
| `argmax`, `argmin` | the smallest place at which the extremum stands, or a NaN |
| `count_nonzero` | a sum of whole numbers |
| `einsum` | sums, products, matrix products |
| `matmul` of integers | a sum of products |
| `fmax`, `cbrt_slope`, .. | arithmetic on rows of the op table |
| rows whose value is a formula | that formula (`formulas.py`) |
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.elementwise_decompositions import ROWS, where
from chainrule.compile.graph.rules.formulas import formula
from chainrule.compile.graph.rules.rewriter import Rewriter, Rule
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.functions import is_function as is_known
from chainrule.engine.op import Pick
from chainrule.ops import elementwise as ew
from chainrule.ops.complex import Real
from chainrule.ops.contraction import MatMul
from chainrule.ops.families import BroadcastTo, Conj, Elementwise, SumTo
from chainrule.ops.indexing.selection import Where
from chainrule.ops.linalg.singular import Pinv, Svd
from chainrule.ops.reductions.norms import LogSumExp, Norm, Shift
from chainrule.ops.reductions.reduction import Extremum, Found, Sum
from chainrule.ops.shapes.shaping import Permute, Reshape

F64 = np.dtype(np.float64)
I64 = np.dtype(np.int64)


def without(r: Rewriter, y: Term, axes: tuple[int, ...], *, keep: bool) -> Term:
    """`y`, whose `axes` have size 1, without them unless they are to stay."""
    if keep:
        return y
    return r.op(Reshape(tuple([n for i, n in enumerate(y.shape) if i not in axes])), y)


# --- reductions ----------------------------------------------------------------------------------


def _log_sum_exp(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    if x.dtype.kind != "f":
        return None
    total = r.op(Sum(op.axes, True), r.op(ew.exp, x))
    return without(r, r.op(ew.log, total), op.axes, keep=op.keepdims)


def _shift(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    if x.dtype.kind != "f":
        return None
    top = r.op(Extremum(True, op.axes, True), x)
    return where(r, r.op(ew.isfinite, top), top, r.constant(0.0))


def _length(r: Rewriter, x: Term, axes: tuple[int, ...]) -> Term:
    return r.op(ew.sqrt, r.op(Sum(axes, True), r.op(ew.square, x)))


def _norm(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """Squares of float32 neither overflow nor vanish in wider numbers."""
    (x,) = args
    if x.dtype.kind != "f":
        return None
    if x.dtype != F64:
        wide = _length(r, r.cast(x, F64), op.axes)
        return without(r, r.cast(wide, x.dtype), op.axes, keep=op.keepdims)
    y = _length(r, x, op.axes)
    small = r.constant(math.sqrt(float(np.finfo(F64).smallest_normal)))
    plain = r.op(ew.logical_and, r.op(ew.greater, y, small), r.op(ew.less, y, r.constant(math.inf)))
    top = r.op(Extremum(True, op.axes, True), r.op(ew.abs, x))
    usable = r.op(ew.logical_and, r.op(ew.isfinite, top), r.op(ew.greater, top, r.constant(0.0)))
    top = where(r, usable, top, r.constant(1.0))
    scaled = r.op(ew.mul, top, _length(r, r.op(ew.div, x, top), op.axes))
    return without(r, where(r, plain, y, scaled), op.axes, keep=op.keepdims)


def _search(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    if x.dtype.kind not in "biuf":
        return None
    if op.what == "count_nonzero":
        some = r.cast(r.op(ew.not_equal, x, r.constant(0)), I64)
        return r.op(Sum(op.axes, op.keepdims), some)
    if op.what in ("any", "all"):
        return r.cast(x, np.dtype(bool)) if not op.axes else None
    return first(r, x, op.axes, op.what == "argmax", op.keepdims)


def first(r: Rewriter, x: Term, axes: tuple[int, ...], largest: bool, keep: bool) -> Term:
    """The smallest place along the one axis at which the extremum stands, a NaN if there is one."""
    (axis,) = axes
    if x.dtype == bool:
        x = r.cast(x, np.dtype(np.int8))
    n: int = x.shape[axis]
    hit = is_top(r, x, r.op(Extremum(largest, axes, True), x))
    steps = np.arange(n).reshape([-1 if a == axis else 1 for a in range(len(x.shape))])
    place = where(r, hit, r.constant(steps), r.constant(n))
    return r.op(Extremum(False, axes, keep), place)


def is_top(r: Rewriter, x: Term, top: Term) -> Term:
    """Where `x` is the extremum `top`; NaN is NaN."""
    hit = r.op(ew.equal, x, top)
    if x.dtype.kind != "f":
        return hit
    return where(r, r.op(ew.isnan, top), r.op(ew.isnan, x), hit)


def _extremum(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """Of one element: that element."""
    (x,) = args
    if any(x.shape[a] != 1 for a in op.axes):
        return None
    return without(r, x, op.axes, keep=op.keepdims)


def _sum(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """Not over axes of size 1; of what is the same along an axis, a multiple."""
    (x,) = args
    if not op.axes:
        return x
    ones = tuple([a for a in op.axes if x.shape[a] == 1])
    if not ones:
        return _multiple(r, op, x)
    rest = tuple([a for a in op.axes if a not in ones])
    y = r.op(Sum(rest, True), x) if rest else x
    return without(r, y, op.axes, keep=op.keepdims)


def _multiple(r: Rewriter, op: Any, x: Term) -> Term | None:
    """The sum of n equal numbers is n times one, rounded once instead of n - 1 times."""
    if not isinstance(x.op, BroadcastTo) or x.dtype.kind not in "iuf":
        return None
    (y,) = x.args
    own = (*[1] * (len(x.shape) - len(y.shape)), *y.shape)
    same = [a for a in op.axes if own[a] == 1]
    if not same:
        return None
    count = math.prod([x.shape[a] for a in same])
    shape = tuple([1 if a in same else n for a, n in enumerate(x.shape)])
    one = r.op(BroadcastTo(shape), r.op(Reshape(own), y))
    rest = tuple([a for a in op.axes if a not in same])
    total = r.op(Sum(rest, True), one) if rest else one
    scale = r.constant(np.asarray(count, x.dtype))
    return without(r, r.op(ew.mul, total, scale), op.axes, keep=op.keepdims)


def _sum_to(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """As a sum over axes, and a reshape where some of them go and others stay with size 1."""
    if op.wide == op.shape:
        return args[0]
    keep = len(op.wide) == len(op.shape)
    return r.op(Reshape(op.shape), r.op(Sum(op.axes, keep), *args))


# --- products ------------------------------------------------------------------------------------


def _matmul(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """Of whole numbers, which BLAS does not know: a sum of products."""
    if args[0].dtype.kind not in "biu" or args[1].dtype.kind not in "biu":
        return None
    dtype = np.result_type(*[x.dtype for x in args])
    a = _transpose_if(r, r.cast(args[0], dtype), op.transpose_a)
    b = _transpose_if(r, r.cast(args[1], dtype), not op.transpose_b)
    left = r.op(Reshape((*a.shape[:-1], 1, a.shape[-1])), a)  # (.., m, 1, k)
    right = r.op(Reshape((*b.shape[:-2], 1, *b.shape[-2:])), b)  # (.., 1, n, k)
    every = r.op(ew.mul, left, right)
    return r.op(Sum((len(every.shape) - 1,), False), every)


def _transpose_if(r: Rewriter, x: Term, swap: bool) -> Term:
    n = len(x.shape)
    return r.op(Permute((*range(n - 2), n - 1, n - 2)), x) if swap else x


# --- complex numbers that are real, and rows of the op table -------------------------------------


def _real(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    return args[0] if args[0].dtype.kind == "f" else None


def _conj(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    return None if args[0].dtype.kind == "c" else args[0]


def _row(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    dtype = r.plain(op, *args).dtype
    if dtype.kind != "f" or is_known(op.label, dtype):
        return None
    xs = [r.cast(x, dtype) for x in args]
    row = ROWS.get(op.label)
    return formula(r, op, xs) if row is None else row(r, *xs)


SIMPLER: dict[type, Rule] = {
    LogSumExp: _log_sum_exp, Shift: _shift, Norm: _norm, Found: _search, Extremum: _extremum,
    Sum: _sum, SumTo: _sum_to, MatMul: _matmul, Real: _real, Conj: _conj, Elementwise: _row,
}  # fmt: skip
"""The rules, by class of op."""


# --- ops on matrices, of factorizations, which LAPACK computes ------------------------------------
# | op | is |
# |---|---|
# | `pinv` | the transposed factors of the singular value decomposition, values inverted |


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
