"""Ops on whole arrays that are algorithms of their own: kernels for each, of loops and calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.statements import Stmt
from chainrule.compile.lower.algorithms import factorizations
from chainrule.compile.lower.algorithms.search import search
from chainrule.compile.lower.algorithms.sort import order
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.op_rules import in_loops
from chainrule.compile.lower.plan import Plan
from chainrule.ops.indexing.sorting import Order, SearchSorted
from chainrule.ops.linalg.determinant import Det, SlogDet
from chainrule.ops.linalg.factoring import Qr
from chainrule.ops.linalg.singular import Eigh, Svd
from chainrule.ops.linalg.solving import Cholesky, Inv, Solve, SolveTriangular

KERNELS: dict[type, Callable[[Plan, Builder, Term], list[list[Stmt]]]] = {
    SearchSorted: search, Order: order,
    Cholesky: factorizations.cholesky, Solve: factorizations.solve, Inv: factorizations.inverse,
    SolveTriangular: factorizations.solve_triangular, Det: factorizations.det,
    SlogDet: factorizations.slogdet, Qr: factorizations.qr, Eigh: factorizations.eigh,
    Svd: factorizations.svd,
}  # fmt: skip
"""By class of op: the statements of each of its kernels."""


def is_algorithm(t: Term) -> bool:
    """Whether `t` is such an op, of numbers with which loops, or LAPACK, compute."""
    if isinstance(t.op, SearchSorted | Order):
        return in_loops(t)
    dtypes = [d for x in (t, *t.args) for d in (x.dtype if x.many else (x.dtype,))]
    floats = all(d.char in "fd" for d in dtypes)
    return type(t.op) in KERNELS and floats and all(_fits(t, x) for x in t.args)


def _fits(t: Term, x: Term) -> bool:
    """Whether LAPACK takes the matrices of `x`: they must not be empty. Matrices that may be
    rectangular need known sizes, since the size of the workspace depends on them."""
    shape: Any = x.shape[-2:]
    known = all(isinstance(n, int) for n in shape)
    return 0 not in shape and (known or not isinstance(t.op, Qr | Svd))
