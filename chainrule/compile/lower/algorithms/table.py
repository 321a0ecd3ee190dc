"""Ops on whole arrays that are algorithms of their own: kernels for each, of loops and calls."""

from __future__ import annotations

from collections.abc import Callable

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.statements import Stmt
from chainrule.compile.lower.algorithms import factorizations
from chainrule.compile.lower.algorithms.row_copies import padded_rows, window_rows
from chainrule.compile.lower.algorithms.search import search
from chainrule.compile.lower.algorithms.shifted_products import shifted_product, shifted_sum, turned
from chainrule.compile.lower.algorithms.sort import order
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.plan import Plan
from chainrule.ops.indexing.sorting import Order, SearchSorted
from chainrule.ops.linalg.determinant import Det, SlogDet
from chainrule.ops.linalg.factoring import Qr
from chainrule.ops.linalg.singular import Eigh, Svd
from chainrule.ops.linalg.solving import Cholesky, Inv, Solve, SolveTriangular
from chainrule.ops.windows.row_copies import PaddedRows, WindowRows
from chainrule.ops.windows.shifted_products import ShiftedProduct, ShiftedSum, Turned

KERNELS: dict[type, Callable[[Plan, Builder, Term], list[list[Stmt]]]] = {
    SearchSorted: search, Order: order,
    Cholesky: factorizations.cholesky, Solve: factorizations.solve, Inv: factorizations.inverse,
    SolveTriangular: factorizations.solve_triangular, Det: factorizations.det,
    SlogDet: factorizations.slogdet, Qr: factorizations.qr, Eigh: factorizations.eigh,
    Svd: factorizations.svd, ShiftedProduct: shifted_product, ShiftedSum: shifted_sum,
    PaddedRows: padded_rows, WindowRows: window_rows, Turned: turned,
}  # fmt: skip
"""By class of op: the statements of each of its kernels."""
