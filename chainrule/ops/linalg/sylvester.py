"""Sylvester's equation a y + y b = q, and the square root of a matrix, whose derivative it gives.

Values are LAPACK's, by SciPy: of the Schur forms of both matrices, by substitution (Bartels &
Stewart 1972, "Solution of the matrix equation AX + XB = C", CACM 15). Derivatives are equations of
the same kind:
a y_dot + y_dot b = q_dot - a_dot y - y b_dot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.errors import ShapeError, describe
from chainrule.ops.contraction import matmul
from chainrule.ops.families import sum_to
from chainrule.ops.linalg.base import MatrixError, matrices, which
from chainrule.ops.shapes.shaping import astype, matrix_transpose
from chainrule.optional import require


def _each(f: Callable[..., Any], dtype: Any, shape: Sequence[int], *xs: Array) -> Array:
    """f of each matrix of a batch, in float64 (or complex128), in an array of that dtype."""
    wide = [x.astype(np.result_type(x.dtype, np.float64)) for x in xs]
    full = [np.broadcast_to(x, (*shape[:-2], *x.shape[-2:])) for x in wide]
    y = np.empty(shape, dtype)
    for place in np.ndindex(*shape[:-2]):
        y[place] = f(*[x[place] for x in full])
    return y


class Sylvester(Op):
    """The y with a y + y b = q."""

    @property
    def name(self) -> str:
        """`solve_sylvester`."""
        return "solve_sylvester"

    def eval(self, *xs: Any) -> Any:
        """By the Schur forms of a and b."""
        spec = self.spec(*xs)
        if 0 in spec.shape:
            return np.zeros(spec.shape, spec.dtype)
        try:
            return _each(_by_schur_forms, spec.dtype, spec.shape, *xs)
        except np.linalg.LinAlgError as cause:
            raise _not_unique(*xs) from cause

    def spec(self, *xs: Any) -> Spec:
        """The batch of all three, and the matrix of q."""
        a, b, q = xs
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
        return Spec((*batch, *q.shape[-2:]), np.result_type(a.dtype, b.dtype, q.dtype))

    def reads(self, i: int) -> tuple[int, ...]:
        """The output and the matrices; of q, the matrices."""
        return (1, 2) if i == 2 else (0, 1, 2)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """z solves aT z + z bT = g; q_bar = z, a_bar = -z yT, b_bar = -yT z."""
        a, b, q = xs
        z = apply(self, matrix_transpose(a), matrix_transpose(b), g)
        back = matrix_transpose(y)
        return (
            sum_to(-matmul(z, back), a.shape) if need[0] else None,
            sum_to(-matmul(back, z), b.shape) if need[1] else None,
            sum_to(z, q.shape) if need[2] else None,
        )

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The solution for q_dot - a_dot y - y b_dot."""
        a_dot, b_dot, q_dot = ts
        parts = [
            None if a_dot is None else -matmul(a_dot, y),
            None if b_dot is None else -matmul(y, b_dot),
            q_dot,
        ]
        first, *others = [p for p in parts if p is not None]
        return apply(self, xs[0], xs[1], sum(others, first))


def _by_schur_forms(a: Array, b: Array, q: Array) -> Array:
    """Of matrices that are brought to triangles, LAPACK substitutes. Raises `LinAlgError` where two
    eigenvalues are so close that it has to move them."""
    scipy = require("scipy.linalg", "solve_sylvester")
    kind = "complex" if q.dtype.kind == "c" else "real"
    (r, u), (s, v) = scipy.schur(a, output=kind), scipy.schur(b, output=kind)
    right = u.conj().T @ q @ v
    y, scale, moved = scipy.get_lapack_funcs("trsyl", (r, s, right))(r, s, right)
    if moved:
        raise np.linalg.LinAlgError
    return u @ (y / scale) @ v.conj().T


def _not_unique(a: Any, b: Any, q: Any) -> MatrixError:
    return MatrixError(
        f"solve_sylvester: {describe(a)} and minus {describe(b)} have an eigenvalue in common, so "
        f"a y + y b = {describe(q)} has no solution, or many"
    )


class SquareRoot(Op):
    """The principal y with y y = x."""

    @property
    def name(self) -> str:
        """`sqrtm`."""
        return "sqrtm"

    def eval(self, *xs: Any) -> Any:
        """SciPy's: of the Schur form (Higham 2008, "Functions of Matrices", algorithm 6.3)."""
        (x,) = xs
        if 0 in x.shape:
            return x.copy()
        root = require("scipy.linalg", "sqrtm").sqrtm
        y: Any = _each(root, np.result_type(x.dtype, np.complex64), x.shape, x)
        if x.dtype.kind != "c":
            if y.imag.any():
                raise MatrixError(
                    f"sqrtm: {which(_has_no_real_root, x)} {describe(x)} has negative eigenvalues, "
                    "so its square root is complex: write sqrtm(x.astype(complex))"
                )
            y = y.real
        return y.astype(x.dtype)

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """The output."""
        return (0,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The z with yT z + z yT = g."""
        back = matrix_transpose(y)
        return (apply(Sylvester(), back, back, g),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The y_dot with y y_dot + y_dot y = x_dot."""
        return apply(Sylvester(), y, y, ts[0])


def _has_no_real_root(x: Array) -> bool:
    values = np.linalg.eigvals(x)
    return bool(((values.real < 0) & (values.imag == 0)).any())


def solve_sylvester(a: Any, b: Any, q: Any, /) -> Any:
    """The y with a y + y b = q. Needs SciPy; computed in float64, of float32 too.

    Shapes: (..., m, m), (..., n, n), (..., m, n) -> (..., m, n).
    Raises `MatrixError` where a and -b have an eigenvalue in common: the solution is not unique.

    >>> cr.linalg.solve_sylvester(cr.eye(2), cr.eye(2), cr.tensor([[2.0, 4.0], [6.0, 8.0]]))
    tensor([[1., 2.],
            [3., 4.]], dtype=float32)
    """
    a, b = (matrices("solve_sylvester", x, square=True) for x in (a, b))
    q = matrices("solve_sylvester", q)
    if (a.shape[-1], b.shape[-1]) != tuple(q.shape[-2:]):
        raise ShapeError(
            f"solve_sylvester: the right side of {describe(a)} and {describe(b)} has matrices of "
            f"{a.shape[-1]} by {b.shape[-1]}, not {describe(q)}"
        )
    dtype = np.result_type(a.dtype, b.dtype, q.dtype)
    return apply(Sylvester(), *[astype(x, dtype) for x in (a, b, q)])


def sqrtm(x: Any, /) -> Any:
    """The principal square root of square matrices: y y = x, eigenvalues right of the imaginary
    axis. Needs SciPy; computed in float64, of float32 too.

    Shapes: (..., n, n) -> (..., n, n).
    Raises `MatrixError` for a real matrix whose root is complex. The derivative solves a Sylvester
    equation of the root; a singular x has none. Higham 2008, "Functions of Matrices", chapter 6.

    >>> cr.linalg.sqrtm(cr.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]], dtype=float32)
    """
    return apply(SquareRoot(), matrices("sqrtm", x, square=True))
