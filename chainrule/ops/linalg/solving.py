"""Inverse, linear equations, triangular equations, Cholesky's factor.

Formulas: Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", sections 2.2.3 (inverse) and 2.3.1 (solve); Murray 2016, arXiv:1602.07527,
section 3 (Cholesky).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule import optional
from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.errors import ShapeError, describe
from chainrule.ops.contraction import matmul
from chainrule.ops.families import conj, sum_to
from chainrule.ops.linalg.base import (
    MatrixError,
    halved_diagonal,
    lapack,
    lower,
    matrices,
    mh,
    singular,
    upper,
    which,
)
from chainrule.ops.shapes.shaping import matrix_transpose, reshape


class Inv(Op):
    """The inverse of square matrices."""

    @property
    def name(self) -> str:
        """`inv`."""
        return "inv"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's, by LU."""
        try:
            return lapack.inv(xs[0])
        except np.linalg.LinAlgError as cause:
            raise singular("inv", xs[0]) from cause

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """The output."""
        return (0,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """-yT g yT."""
        t = matrix_transpose(y)
        return (-matmul(matmul(t, g), t),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """-y t y."""
        return -matmul(matmul(y, ts[0]), y)


class Solve(Op):
    """The matrices y with a y = b: (..., n, n), (..., n, k) -> (..., n, k); a batch broadcasts."""

    @property
    def name(self) -> str:
        """`solve`."""
        return "solve"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's, by LU."""
        try:
            return lapack.solve(*xs)
        except np.linalg.LinAlgError as cause:
            raise singular("solve", xs[0]) from cause

    def spec(self, *xs: Any) -> Spec:
        """(..., n, k)."""
        a, b = xs
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return Spec((*lead, *b.shape[-2:]), np.result_type(a.dtype, b.dtype))

    def reads(self, i: int) -> tuple[int, ...]:
        """`a`; for its own gradient the output as well."""
        return (1,) if i else (0, 1)

    def transposed(self, a: Any, g: Any) -> Any:
        """The solution of aT x = g."""
        return apply(self, matrix_transpose(a), g)

    def masked(self, x: Any) -> Any:
        """The part of `x` in the places of `a` that are read."""
        return x

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """b_bar solves aT b_bar = g, and a_bar = -b_bar yT."""
        a, b = xs
        bar = self.transposed(a, g)
        a_bar = None
        if need[0]:
            a_bar = sum_to(self.masked(-matmul(bar, matrix_transpose(y))), a.shape)
        return a_bar, sum_to(bar, b.shape) if need[1] else None

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The solution for b_dot - a_dot y."""
        a_dot, b_dot = ts
        if a_dot is None:
            return apply(self, xs[0], b_dot)
        change = matmul(self.masked(a_dot), y)
        return apply(self, xs[0], -change if b_dot is None else b_dot - change)


class SolveTriangular(Solve):
    """The same where only one triangle of `a` is read, with `unit` not even its diagonal."""

    up: bool
    unit: bool

    @property
    def name(self) -> str:
        """`solve_triangular`."""
        return "solve_triangular"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's substitution."""
        a, b = xs
        if 0 in a.shape or 0 in b.shape:
            spec = self.spec(*xs)
            return np.zeros(spec.shape, spec.dtype)
        scipy = optional.find("scipy.linalg")  # 35 ms that few programs need
        try:
            if scipy is None:
                return self.substituted(a, b)
            return scipy.solve_triangular(
                a, b, lower=not self.up, unit_diagonal=self.unit, check_finite=False
            )
        except np.linalg.LinAlgError as cause:
            raise singular(self.name, self.masked(a)) from cause

    def substituted(self, a: Array, b: Array) -> Array:
        """The same without SciPy: LAPACK's general solver of an upper triangle, whose rows it need
        not exchange. A lower triangle becomes an upper one when its rows and columns are
        reversed."""
        triangle = np.triu(a) if self.up else np.tril(a)
        if self.unit:
            triangle = np.where(np.eye(a.shape[-1], dtype=bool), a.dtype.type(1), triangle)
        if self.up:
            return np.linalg.solve(triangle, b)
        return np.linalg.solve(triangle[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]

    def transposed(self, a: Any, g: Any) -> Any:
        """The transpose's triangle is the other one."""
        return apply(SolveTriangular(not self.up, self.unit), matrix_transpose(a), g)

    def masked(self, x: Any) -> Any:
        """The triangle."""
        return upper(x, int(self.unit)) if self.up else lower(x, -int(self.unit))


def inv(x: Any, /) -> Any:
    """The inverse of square matrices. Raises `MatrixError` where one is singular.

    Shapes: (..., n, n) -> (..., n, n).

    >>> cr.linalg.inv(cr.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]], dtype=float32)
    """
    return apply(Inv(), matrices("inv", x, square=True))


def equations(what: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Square matrices and the columns of the right side, checked."""
    a, b = matrices(what, a, square=True), matrices(what, b)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"{what}: {describe(a)} has {a.shape[-1]} unknowns, {describe(b)} has "
            f"{b.shape[-2]} equations"
        )
    return a, b


def solve(x1: Any, x2: Any, /) -> Any:
    """The y with x1 y = x2.

    Shapes: (..., n, n), (n) -> (..., n); (..., n, n), (..., n, k) -> (..., n, k).
    If x2 has exactly one axis it is one vector, for every matrix. Raises
    `MatrixError` where a matrix is singular.

    >>> cr.linalg.solve(cr.tensor([[2.0, 0.0], [0.0, 4.0]]), cr.tensor([2.0, 8.0]))
    tensor([1., 2.], dtype=float32)
    """
    if x2.ndim == 1:
        y = solve(x1, reshape(x2, (-1, 1)))
        return reshape(y, y.shape[:-1])
    return apply(Solve(), *equations("solve", x1, x2))


def solve_triangular(
    a: Any, b: Any, /, *, upper: bool = False, left: bool = True, unitriangular: bool = False
) -> Any:
    """The y with a y = b (y a = b if not `left`), reading only the lower (or upper) triangle of a.

    Shapes: (..., n, n), (n) -> (..., n);
        (..., n, n), (..., n, k) -> (..., n, k) if left;
        (..., n, n), (..., k, n) -> (..., k, n).
    With `unitriangular` the diagonal counts as ones and is not read. Raises
    `MatrixError` where the diagonal has a 0.

    >>> a = cr.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> cr.linalg.solve_triangular(a, cr.tensor([[4.0], [3.0]]), upper=False)
    tensor([[2.],
            [1.]], dtype=float32)
    """
    if b.ndim == 1:
        row = reshape(b, (-1, 1) if left else (1, -1))
        y = solve_triangular(a, row, upper=upper, left=left, unitriangular=unitriangular)
        return reshape(y, (*y.shape[:-2], b.shape[0]))
    if not left:
        a, b = matrix_transpose(a), matrix_transpose(b)
        y = solve_triangular(a, b, upper=not upper, unitriangular=unitriangular)
        return matrix_transpose(y)
    a, b = equations("solve_triangular", a, b)
    return apply(SolveTriangular(bool(upper), bool(unitriangular)), a, b)


# --- Cholesky ------------------------------------------------------------------------------------


class Cholesky(Op):
    """The lower triangular y, with a positive diagonal, for which y yH is the input.

    Only the input's lower triangle is read; the gradient is that of a function of Hermitian
    matrices, and Hermitian itself.
    """

    states_jvp = False

    @property
    def name(self) -> str:
        """`cholesky`."""
        return "cholesky"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's."""
        try:
            return lapack.cholesky(xs[0])
        except np.linalg.LinAlgError as cause:
            raise _not_positive(xs[0]) from cause

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """The output."""
        return (0,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The Hermitian part of y^-H P y^-1, P the lower triangle of yH G, its diagonal halved."""
        n = y.shape[-1]
        half = lower(matmul(mh(y), conj(g))) * halved_diagonal(n, g.dtype)
        up = mh(y)
        left = solve_triangular(up, half, upper=True)
        s = solve_triangular(up, mh(left), upper=True)
        return (conj(s + mh(s)) * 0.5,)


def _not_positive(x: Any) -> MatrixError:
    """The error for matrices of which one has no Cholesky factor: which one, and its least
    eigenvalue."""

    def bad(a: Any) -> bool:
        try:
            np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            return True
        return False

    found = which(bad, x)
    first = next((x[p] for p in np.ndindex(x.shape[:-2]) if bad(x[p])), x)
    least = np.min(np.linalg.eigvalsh(first)) if np.isfinite(first).all() else np.nan
    return MatrixError(
        f"cholesky: {found} {describe(x)} is not positive definite: its smallest eigenvalue is "
        f"{least:.3g}. If only rounding makes it so, add a small multiple of the identity"
    )


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The lower triangular L with L LH = x, or the upper U with UH U = x, Hermitian.

    Shapes: (..., n, n) -> (..., n, n).
    Only the lower triangle of `x` is read; the gradient is Hermitian. Raises `MatrixError` where
    a matrix is not positive definite. Murray 2016, arXiv:1602.07527, section 3.

    >>> cr.linalg.cholesky(cr.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]], dtype=float32)
    """
    y = apply(Cholesky(), matrices("cholesky", x, square=True))
    return mh(y) if upper else y
