"""LU factors: elimination with exchanged rows, P L U = x.

Which rows are exchanged is a choice, and has no derivative. With the rows in their order x = L U
of a square x, and with M = L^-1 x_dot U^-1 the factors change by L tril(M, -1) and triu(M) U.
De Hoog, Anderssen & Lukas 2011, "Differentiation of matrix functionals using triangular
factorization", Math. Comp. 80.

Notation: k the smaller of m and n; `compact` both factors in one matrix, L without its diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.errors import DtypeError, ShapeError, describe
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import matmul
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.indexing.selection import take_along_axis
from chainrule.ops.linalg.base import lower, matrices, upper
from chainrule.ops.linalg.solving import solve_triangular
from chainrule.ops.shapes.joining import concat
from chainrule.ops.shapes.shaping import (
    astype,
    broadcast_to,
    expand_dims,
    matrix_transpose,
    swapaxes,
)


class LUResult(NamedTuple):
    """A permutation matrix, a lower triangle with ones on its diagonal, an upper triangle."""

    P: Any
    L: Any
    U: Any


class LUFactorResult(NamedTuple):
    """Both triangles in one matrix, and with which row (from 1) each row was exchanged in turn."""

    LU: Any
    pivots: Any


_PANEL = 32
"""Columns that are eliminated one by one, before the rest is by matrix products."""


def _eliminate(x: Array, pivots: Array | None) -> Array:
    """The compact factors of a copy of x; rows are exchanged if there is where to note it.

    Panel by panel, as LAPACK's getrf: Golub & Van Loan, Matrix Computations, section 3.2.11.
    """
    y = x.copy()
    k = min(y.shape[-2:])
    for begin in range(0, k, _PANEL):
        end = min(begin + _PANEL, k)
        _eliminate_panel(y, begin, end, pivots)
        if end < y.shape[-1]:
            square = y[..., begin:end, begin:end]
            left = np.tril(square, -1) + np.eye(end - begin, dtype=y.dtype)
            top = np.linalg.solve(left, y[..., begin:end, end:])
            y[..., begin:end, end:] = top
            y[..., end:, end:] -= np.matmul(y[..., end:, begin:end], top)
    return y


def _eliminate_panel(y: Array, begin: int, end: int, pivots: Array | None) -> None:
    """Eliminates columns begin..end - 1 of y in place; whole rows are exchanged."""
    batch = cast(Any, np.ix_(*[np.arange(i) for i in y.shape[:-2]]))
    for j in range(begin, end):
        if pivots is not None:
            at = j + np.argmax(np.abs(y[..., j:, j]), axis=-1)
            pivots[..., j] = at + 1
            row = y[..., j, :].copy()
            y[..., j, :] = y[(*batch, at)]
            y[(*batch, at)] = row
        with np.errstate(divide="ignore", invalid="ignore"):
            share = y[..., j + 1 :, j] / y[..., j, None, j]
        y[..., j + 1 :, j] = share = np.where(y[..., j, None, j] == 0, 0, share)
        y[..., j + 1 :, j + 1 : end] -= share[..., None] * y[..., j, None, j + 1 : end]


class Pivots(Op):
    """With which row each was exchanged: (..., m, n) -> (..., k), int32, from 1 as in LAPACK."""

    @property
    def name(self) -> str:
        """`lu_pivots`."""
        return "lu_pivots"

    def eval(self, *xs: Any) -> Any:
        """The largest element of a column comes first."""
        spec = self.spec(*xs)
        pivots = np.zeros(spec.shape, np.int32)
        _eliminate(xs[0], pivots)
        return pivots

    def spec(self, *xs: Any) -> Spec:
        """(..., k)."""
        *lead, m, n = xs[0].shape
        return Spec((*lead, min(m, n)), np.dtype(np.int32))

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


class RowOrder(Op):
    """Where each of m rows comes from, once they are exchanged: (..., k) -> (..., m), int64."""

    rows: int

    @property
    def name(self) -> str:
        """`lu_rows`."""
        return "lu_rows"

    def eval(self, *xs: Any) -> Any:
        """One exchange after the other."""
        (pivots,) = xs
        lead, k = pivots.shape[:-1], pivots.shape[-1]
        order = np.broadcast_to(np.arange(self.rows), (*lead, self.rows)).copy()
        batch = cast(Any, np.ix_(*[np.arange(i) for i in lead]))
        for j in range(k):
            at = pivots[..., j].astype(np.int64) - 1
            first = order[..., j].copy()
            order[..., j] = order[(*batch, at)]
            order[(*batch, at)] = first
        return order

    def spec(self, *xs: Any) -> Spec:
        """(..., m)."""
        return Spec((*xs[0].shape[:-1], self.rows), np.dtype(np.int64))

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


class Eliminate(Op):
    """The compact factors of square matrices whose rows are in the right order."""

    @property
    def name(self) -> str:
        """`lu`."""
        return "lu"

    def eval(self, *xs: Any) -> Any:
        """Column by column."""
        return _eliminate(xs[0], None)

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """The output."""
        return (0,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """L^-T (tril(LT g, -1) + triu(g UT)) U^-T, of what g has below the diagonal, and above."""
        below = lower(matmul(matrix_transpose(_unit(y)), lower(g, -1)), -1)
        above = upper(matmul(upper(g), matrix_transpose(upper(y))))
        u = matrix_transpose(upper(y))
        bar = solve_triangular(matrix_transpose(y), below + above, upper=True, unitriangular=True)
        return (solve_triangular(u, bar, left=False),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """L tril(M, -1) + triu(M) U, with M = L^-1 t U^-1."""
        inner = solve_triangular(y, ts[0], unitriangular=True)
        inner = solve_triangular(upper(y), inner, upper=True, left=False)
        return matmul(_unit(y), lower(inner, -1)) + matmul(upper(inner), upper(y))


def _unit(compact: Any) -> Any:
    """L."""
    return lower(compact, -1) + np.eye(*compact.shape[-2:], dtype=compact.dtype)


def _factors(x: Any) -> tuple[Any, Any, Any]:
    """L (..., m, k), U (..., k, n), and the pivots."""
    k = min(x.shape[-2:])
    pivots = apply(Pivots(), x)
    x = _in_order(x, pivots)
    square = apply(Eliminate(), getitem(x, (..., slice(None, k), slice(None, k))))
    left, right = _unit(square), upper(square)
    if x.shape[-2] > k:
        more = solve_triangular(
            right, getitem(x, (..., slice(k, None), slice(None))), upper=True, left=False
        )
        left = concat([left, more], axis=-2)
    if x.shape[-1] > k:
        rest = getitem(x, (..., slice(None), slice(k, None)))
        right = concat([right, solve_triangular(square, rest, unitriangular=True)], axis=-1)
    return left, right, pivots


def _in_order(x: Any, pivots: Any) -> Any:
    """The rows of x as they are exchanged."""
    order = expand_dims(apply(RowOrder(int(x.shape[-2])), pivots), -1)
    lead = np.broadcast_shapes(order.shape[:-2], x.shape[:-2])
    order = broadcast_to(order, (*lead, *order.shape[-2:]))
    return take_along_axis(broadcast_to(x, (*lead, *x.shape[-2:])), order, axis=-2)


def lu(x: Any, /) -> LUResult:
    """P, L, U with x = P L U: a permutation, and two triangles.

    Shapes: (..., m, n) -> (..., m, m), (..., m, min(m, n)), (..., min(m, n), n).
    The largest element of a column is its pivot. P has no derivative; where the first min(m, n)
    columns are linearly dependent L and U have none, and a backward pass raises `MatrixError`.
    De Hoog et al. 2011, Math. Comp. 80.

    >>> [x.shape for x in cr.linalg.lu(cr.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))]
    [(3, 3), (3, 2), (2, 2)]
    """
    x = matrices("lu", x)
    L, U, pivots = _factors(x)
    m = int(x.shape[-2])
    order = apply(RowOrder(m), pivots)
    P = ew.equal(expand_dims(order, -2), np.arange(m)[:, None])
    return LUResult(astype(P, x.dtype), L, U)


def lu_factor(x: Any, /) -> LUFactorResult:
    """The factors of `lu` as `lu_solve` takes them: both triangles in one matrix, and the pivots.

    Shapes: (..., m, n) -> (..., m, n), (..., min(m, n)).

    >>> cr.linalg.lu_factor(cr.tensor([[2.0, 1.0], [4.0, 4.0]]))
    LUFactorResult(LU=tensor([[ 4. ,  4. ],
            [ 0.5, -1. ]], dtype=float32), pivots=tensor([2, 2], dtype=int32))
    """
    left, right, pivots = _factors(matrices("lu_factor", x))
    (m, k), n = left.shape[-2:], right.shape[-1]
    if m > k:
        right = concat([right, np.zeros((*right.shape[:-2], m - k, n), right.dtype)], axis=-2)
    if n > k:
        left = concat([left, np.zeros((*left.shape[:-2], m, n - k), left.dtype)], axis=-1)
    return LUFactorResult(lower(left, -1) + right, pivots)


def lu_solve(factors: Any, pivots: Any, b: Any, /, *, left: bool = True) -> Any:
    """The y with x y = b (y x = b if not `left`), from `lu_factor(x)`.

    Shapes: (..., n, n), (..., n), (..., n, k) -> (..., n, k) if left;
        (..., n, n), (..., n), (..., k, n) -> (..., k, n).

    >>> lu, pivots = cr.linalg.lu_factor(cr.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> cr.linalg.lu_solve(lu, pivots, cr.tensor([[2.0], [8.0]]))
    tensor([[1.],
            [2.]], dtype=float32)
    """
    factors, b = matrices("lu_solve", factors, square=True), matrices("lu_solve", b)
    n = int(factors.shape[-1])
    if pivots.dtype.kind not in "iu" or pivots.shape[-1:] != (n,):
        raise DtypeError(f"lu_solve: pivots are {n} integers, not {describe(pivots)}")
    if b.shape[-2 if left else -1] != n:
        raise ShapeError(
            f"lu_solve: {describe(factors)} has {n} unknowns, which {describe(b)} does not"
        )
    if left:
        y = solve_triangular(factors, _in_order(b, pivots), unitriangular=True)
        return solve_triangular(factors, y, upper=True)
    y = solve_triangular(factors, b, upper=True, left=False)
    y = solve_triangular(factors, y, unitriangular=True, left=False)
    return swapaxes(_out_of_order(swapaxes(y, -1, -2), pivots), -1, -2)


def _out_of_order(x: Any, pivots: Any) -> Any:
    """The rows of x as they were before they were exchanged."""
    order = apply(RowOrder(int(x.shape[-2])), pivots)
    columns = cast(Any, np.arange(order.shape[-1])[:, None])
    return matmul(astype(ew.equal(expand_dims(order, -2), columns), x.dtype), x)
