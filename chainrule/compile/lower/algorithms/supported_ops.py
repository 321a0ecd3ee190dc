"""Which ops are algorithms of their own, on whole arrays."""

from __future__ import annotations

from typing import Any

from chainrule.compile.graph.terms import Term
from chainrule.compile.lower.op_rules import in_loops
from chainrule.ops.indexing.sorting import Order, SearchSorted
from chainrule.ops.linalg.determinant import Det, SlogDet
from chainrule.ops.linalg.factoring import Qr
from chainrule.ops.linalg.singular import Eigh, Svd
from chainrule.ops.linalg.solving import Cholesky, Inv, Solve, SolveTriangular
from chainrule.ops.windows.row_copies import RowCopy
from chainrule.ops.windows.shifted_products import ShiftedProduct, ShiftedSum, Turned

IN_LOOPS = SearchSorted | Order | ShiftedProduct | ShiftedSum | Turned | RowCopy
BY_LAPACK = Cholesky | Solve | Inv | SolveTriangular | Det | SlogDet | Qr | Eigh | Svd


def is_algorithm(t: Term) -> bool:
    """Whether `t` is such an op, of numbers with which loops, or LAPACK, compute."""
    if isinstance(t.op, IN_LOOPS):
        return in_loops(t)
    dtypes = [d for x in (t, *t.args) for d in (x.dtype if x.many else (x.dtype,))]
    floats = all(d.char in "fd" for d in dtypes)
    return isinstance(t.op, BY_LAPACK) and floats and all(_fits(t, x) for x in t.args)


def _fits(t: Term, x: Term) -> bool:
    """Whether LAPACK takes the matrices of `x`: they must not be empty. Matrices that may be
    rectangular need known sizes, since the size of the workspace depends on them."""
    shape: Any = x.shape[-2:]
    known = all(isinstance(n, int) for n in shape)
    return 0 not in shape and (known or not isinstance(t.op, Qr | Svd))
