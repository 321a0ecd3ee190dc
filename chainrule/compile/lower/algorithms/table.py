"""Ops on whole arrays that are algorithms of their own: kernels for each, of loops and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.statements import Stmt
from chainrule.compile.lower.algorithms import factorizations
from chainrule.compile.lower.algorithms.search import search
from chainrule.compile.lower.algorithms.sort import order
from chainrule.compile.lower.op_rules import in_loops
from chainrule.ops.linalg.determinant import Det, SlogDet
from chainrule.ops.linalg.factoring import Qr
from chainrule.ops.linalg.singular import Eigh, Svd
from chainrule.ops.linalg.solving import Cholesky, Inv, Solve, SolveTriangular
from chainrule.ops.sorting import Order, SearchSorted

if TYPE_CHECKING:
    from chainrule.compile.lower.scheduler import Scheduler

LOOPS: dict[type, Callable[[Scheduler, Term], list[Stmt]]] = {SearchSorted: search, Order: order}
"""By class of op: the statements of its kernel."""

LAPACK: dict[type, Callable[[Scheduler, Term], list[list[Stmt]]]] = {
    Cholesky: factorizations.cholesky, Solve: factorizations.solve, Inv: factorizations.inverse,
    SolveTriangular: factorizations.solve_triangular, Det: factorizations.det,
    SlogDet: factorizations.slogdet, Qr: factorizations.qr, Eigh: factorizations.eigh,
    Svd: factorizations.svd,
}  # fmt: skip
"""Those that call LAPACK: the statements of each of its kernels."""


def is_algorithm(t: Term) -> bool:
    """Whether `t` is such an op, of numbers with which loops, or LAPACK, compute."""
    if type(t.op) in LOOPS:
        return in_loops(t)
    floats = all(d.char in "fd" for x in (t, *t.args) for d in _each(x.dtype))
    return type(t.op) in LAPACK and floats and all(_fits(t, x) for x in t.args)


def _fits(t: Term, x: Term) -> bool:
    """Whether LAPACK takes the matrices of `x`: not empty ones; and those that may be wide or high
    only of sizes that are known, on which the memory that it needs depends."""
    known = all(isinstance(n, int) for n in x.shape[-2:])
    return 0 not in x.shape[-2:] and (known or not isinstance(t.op, Qr | Svd))


def _each(dtype: Any) -> Iterator[Any]:
    yield from dtype if isinstance(dtype, tuple) else (dtype,)


def build(s: Scheduler, t: Term) -> list[list[Stmt]]:
    """The statements of each of its kernels."""
    s.forget()
    if type(t.op) in LOOPS:
        return [LOOPS[type(t.op)](s, t)]
    return LAPACK[type(t.op)](s, t)
