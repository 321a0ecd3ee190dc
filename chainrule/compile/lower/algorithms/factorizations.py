"""Factorizations, as LAPACK computes them: for each op its routines, and what lies around them.

Notation: `lead` the index of a matrix in the batch; `m n` its rows and columns, `k` the smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Buffer, Expr
from chainrule.compile.loops.statements import For, Into, Let, Span, Stmt, Store
from chainrule.compile.loops.views import ZERO, Index, broadcast_index, full_view
from chainrule.compile.lower.algorithms.lapack_calls import I32, Factoring, entire
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.plan import Plan

_BLOCK = 64
"""LAPACK works on so many columns at once, at most: memory for them is lent to it."""


# --- equations -----------------------------------------------------------------------------------


def cholesky(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """The lower triangle; by columns it is the upper one of the same numbers."""
    f, (x,), n = Factoring(plan, builder, t, t.shape[:-2], t.dtype), t.args, t.shape[-1]
    e, a = builder.exprs, f.floats(n * n, "factor")
    (i, j), (row, col) = builder.counters((n, n))
    inside = e.fn("less_equal", e.index(col), e.index(row))
    value = e.fn("where", inside, f.element(x, (row, col)), e.lit(0, t.dtype))
    lower = f.nested([i, j], [Store(a, row * n + col, value)])
    (p, q), (row, col) = builder.counters((n, n))
    copied = builder.store(t, (*f.lead, row, col), e.load(a, row * n + col))
    call = f.call("potrf", "U", n, entire(a, "inout"), n)
    return f.or_eager([lower, call, f.nested([p, q], [copied])])


def solve(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """Linear equations, by LU."""
    (a, b), n, k = t.args, t.shape[-2], t.shape[-1]
    f = Factoring(plan, builder, t, t.shape[:-2], t.dtype)
    left, right = f.floats(n * n, "factors"), f.floats(n * k, "solutions")
    return f.or_eager([
        f.columns(left, n, n, lambda at: f.element(a, at)),
        f.columns(right, n, k, lambda at: f.element(b, at)),
        _gesv(f, left, right, n, k),
        f.back(plan.views[t], right, n, n, k),
    ])  # fmt: skip


def inverse(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """The solutions for the identity."""
    (x,), n, e = t.args, t.shape[-1], builder.exprs
    f = Factoring(plan, builder, t, t.shape[:-2], t.dtype)
    left, right = f.floats(n * n, "factors"), f.floats(n * n, "solutions")

    def identity(at: Index) -> Expr:
        same = e.fn("equal", e.index(at[0]), e.index(at[1]))
        return e.cast(same, t.dtype)

    return f.or_eager([
        f.columns(left, n, n, lambda at: f.element(x, at)),
        f.columns(right, n, n, identity),
        _gesv(f, left, right, n, n),
        f.back(plan.views[t], right, n, n, n),
    ])  # fmt: skip


def _gesv(f: Factoring, a: Buffer, b: Buffer, n: Extent, k: Extent) -> Stmt:
    pivots = f.memory(I32, n, "pivots")
    return f.call(
        "gesv", n, k, entire(a, "inout"), n, entire(pivots, "out"), entire(b, "inout"), n
    )  # fmt: skip


def solve_triangular(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """Substitution."""
    op: Any = t.op
    (a, b), n, k = t.args, t.shape[-2], t.shape[-1]
    f = Factoring(plan, builder, t, t.shape[:-2], t.dtype)
    copied, span, lead, turned = _matrix(f, a)
    letters = "U" if op.up is not turned else "L", "T" if turned else "N", "U" if op.unit else "N"
    right = f.floats(n * k, "solutions")
    return f.or_eager([
        *copied,
        f.columns(right, n, k, lambda at: f.element(b, at)),
        f.call("trtrs", *letters, n, k, span, lead, entire(right, "inout"), n),
        f.back(plan.views[t], right, n, n, k),
    ])  # fmt: skip


def _matrix(f: Factoring, a: Term) -> tuple[list[Stmt], Span, Extent, bool]:
    """A square matrix that is only read, the stride of its columns, and whether it is the
    transpose. It is used in place if its rows or columns are contiguous, and copied otherwise."""
    n, view = a.shape[-1], f.builder.view(a)
    if view is not None and a.dtype == f.dtype and n != 1:
        row, col = view.strides[-2:]
        step = row if col == 1 else col
        apart = step == n or (isinstance(step, int) and isinstance(n, int) and step > n)
        if 1 in (row, col) and apart:
            at = view.at((*broadcast_index(f.lead, a.shape[:-2]), ZERO, ZERO))
            return [], Span(view.buffer, at, (n - 1) * step + n, "in"), step, col == 1
    b = f.floats(n * n, "matrix")
    return [f.columns(b, n, n, lambda at: f.element(a, at))], entire(b, "in"), n, False


# --- determinants --------------------------------------------------------------------------------


def det(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """The sign times the exponential of the logarithm, as NumPy does it."""
    f = Factoring(plan, builder, t, t.shape, t.dtype)

    def given(sign: Expr, log: Expr) -> list[Stmt]:
        size = builder.exprs.fn("exp", log)
        return [builder.store(t, f.lead, builder.exprs.fn("mul", sign, size))]

    return [_by_pivots(f, given)]


def slogdet(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """The sign and the logarithm."""
    outs = plan.memory.outputs[t]
    f = Factoring(plan, builder, t, outs[0].shape, outs[0].dtype)

    def given(sign: Expr, log: Expr) -> list[Stmt]:
        values = zip(outs, (sign, log), strict=True)
        return [Store(b, full_view(b).at(f.lead), value) for b, value in values]

    return [_by_pivots(f, given)]


def _by_pivots(f: Factoring, given: Callable[[Expr, Expr], list[Stmt]]) -> list[Stmt]:
    """Sign and logarithm of the determinant, from the diagonal of LU and its exchanges of rows."""
    (x,), e, d, builder = f.t.args, f.e, f.dtype, f.builder
    n = x.shape[-1]
    a, pivots = f.floats(n * n, "factors"), f.memory(I32, n, "pivots")
    i, sign, log, own = builder.var(n), builder.local(d), builder.local(d), builder.local(d)
    one, none = e.lit(1, d), e.lit(0, d)
    next_ = e.cast(e.index(Affine(1, ((i, 1),))), I32)
    stays = e.fn("equal", e.load(pivots, Affine.of(i)), next_)
    turned = e.fn("where", stays, one, e.lit(-1, d))
    size = e.fn("log", e.fn("abs", e.local(own)))
    signs = e.fn("mul", turned, e.fn("sign", e.local(own)))
    diagonal: list[Stmt] = [
        Let(own, e.load(a, Affine(0, ((i, n + 1),)))),
        Into(sign, "mul", signs),
        Into(log, "add", size),
    ]
    zero = f.failed()
    return f.all([
        f.columns(a, n, n, lambda at: f.element(x, at)),
        f.call("getrf", n, n, entire(a, "inout"), n, entire(pivots, "out")),
        Let(sign, one),
        Let(log, none),
        For(i, tuple(diagonal)),
        *given(
            e.fn("where", zero, none, e.local(sign)),
            e.fn("where", zero, e.lit(-np.inf, d), e.local(log)),
        ),
    ])  # fmt: skip


# --- orthogonal factors --------------------------------------------------------------------------


def qr(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """Householder's reflections, then the columns that they make."""
    (x,), (q, r) = t.args, plan.memory.outputs[t]
    m, n, k = x.shape[-2], x.shape[-1], min(x.shape[-2:])  # type: ignore[type-var]
    cols = q.shape[-1]
    f, e = Factoring(plan, builder, t, q.shape[:-2], q.dtype), builder.exprs
    a, tau = f.floats(m * max(n, cols), "factors"), f.floats(k, "reflections")  # type: ignore[type-var]
    work = f.floats(_BLOCK * max(n, cols), "for LAPACK")  # type: ignore[type-var]
    (i, j), (row, col) = builder.counters(r.shape[-2:])
    above = e.fn("less_equal", e.index(row), e.index(col))
    value = e.load(a, row + col * m)
    upper = e.fn("where", above, value, e.lit(0, q.dtype))
    store = Store(r, full_view(r).at((*f.lead, row, col)), upper)
    lent = entire(work, "out"), work.size
    return f.or_eager([
        f.columns(a, m, n, lambda at: f.element(x, at)),
        f.call("geqrf", m, n, entire(a, "inout"), m, entire(tau, "out"), *lent),
        f.nested([i, j], [store]),
        f.call("orgqr", m, cols, k, entire(a, "inout"), m, entire(tau, "in"), *lent),
        f.back(full_view(q), a, m, m, cols),
    ])  # fmt: skip


def eigh(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """Eigenvalues and eigenvectors, from one triangle, by divide and conquer."""
    (x,), (w, v) = t.args, plan.memory.outputs[t]
    n = x.shape[-1]
    f = Factoring(plan, builder, t, v.shape[:-2], v.dtype)
    a = f.floats(n * n, "vectors")
    work = f.floats(2 * n * n + (_BLOCK + 6) * n + 1, "for LAPACK")
    whole_ = f.memory(I32, 5 * n + 3, "for LAPACK")
    values = Span(w, full_view(w).at((*f.lead, ZERO)), n, "out")
    return f.or_eager([
        f.columns(a, n, n, lambda at: f.element(x, at)),
        f.call("syevd", "V", "U" if t.op.upper else "L", n, entire(a, "inout"), n, values,  # type: ignore[union-attr]
               entire(work, "out"), work.size, entire(whole_, "out"), whole_.size),
        f.back(full_view(v), a, n, n, n),
    ])  # fmt: skip


def svd(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """Singular values and vectors, by divide and conquer."""
    (x,), (u, d, w) = t.args, plan.memory.outputs[t]
    m, n = x.shape[-2:]
    left, right, k = u.shape[-1], w.shape[-2], d.shape[-1]
    f = Factoring(plan, builder, t, u.shape[:-2], u.dtype)
    a, us, ws = (f.floats(p, "matrix") for p in (m * n, m * left, right * n))
    work = f.floats(4 * k * k + 7 * k + (_BLOCK + 3) * (m + n), "for LAPACK")
    whole_ = f.memory(I32, 8 * k, "for LAPACK")
    values = Span(d, full_view(d).at((*f.lead, ZERO)), k, "out")
    return f.or_eager([
        f.columns(a, m, n, lambda at: f.element(x, at)),
        f.call("gesdd", "A" if t.op.full else "S", m, n, entire(a, "inout"), m, values,  # type: ignore[union-attr]
               entire(us, "out"), m, entire(ws, "out"), right, entire(work, "out"), work.size,
               entire(whole_, "out")),
        f.back(full_view(u), us, m, m, left),
        f.back(full_view(w), ws, right, right, n),
    ])  # fmt: skip
