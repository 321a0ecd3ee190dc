"""The exponential of square matrices.

The value is a Padé approximant of x / 2^s, squared s times: Higham 2005, "The scaling and squaring
method for the matrix exponential revisited", SIAM J. Matrix Anal. Appl. 26, algorithm 2.3. The
derivative along t is a block of another exponential: exp([[x, t], [0, x]]) is [[exp(x), y_dot],
[0, exp(x)]]. Higham 2008, "Functions of Matrices", theorem 3.6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.linalg.base import lapack, matrices
from chainrule.ops.shapes.joining import concat
from chainrule.ops.shapes.shaping import matrix_transpose

_LARGEST = 5.371920351148152
"""The norm up to which the approximant is exact in float64: Higham's theta_13."""
_PADE = [math.comb(13, k) * math.factorial(26 - k) / math.factorial(26) for k in range(14)]
"""Its coefficients: of x^k, with the other sign for odd k in the denominator."""
_MOST_SQUARINGS = 1100
"""Beyond it the exponential of every matrix of float64 is 0, infinite or NaN."""


class MatrixExp(Op):
    """exp(x) of square matrices: the sum of x^k / k!."""

    @property
    def name(self) -> str:
        """`matrix_exp`."""
        return "matrix_exp"

    def eval(self, *xs: Any) -> Any:
        """In float64 (or complex128): each matrix is scaled by what the largest of them needs."""
        (x,) = xs
        wide = x.astype(np.result_type(x.dtype, np.float64))
        if not wide.size:
            return x.copy()
        size = float(np.abs(wide).sum(axis=-2).max())
        if not math.isfinite(size):
            return np.where(_finite(wide), MatrixExp().eval(np.where(_finite(wide), x, 0)), np.nan)
        s = max(0, math.ceil(math.log2(size / _LARGEST))) if size else 0
        with np.errstate(over="ignore", invalid="ignore"):
            y = _approximant(wide / 2.0**s)
            for _ in range(min(s, _MOST_SQUARINGS)):
                y = y @ y
            return y.astype(x.dtype)

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """The input."""
        return (1,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The derivative at xT along g."""
        return (_along(matrix_transpose(xs[0]), g),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The derivative at x along t."""
        return _along(xs[0], ts[0])


def _finite(x: Array) -> Any:
    return np.isfinite(x).all(axis=(-2, -1), keepdims=True)


def _along(x: Any, t: Any) -> Any:
    """The derivative of the exponential at x along t."""
    n = x.shape[-1]
    upper, lower = concat([x, t], axis=-1), concat([t * 0, x], axis=-1)
    y = apply(MatrixExp(), concat([upper, lower], axis=-2))
    return getitem(y, (..., slice(None, n), slice(n, None)))


def _approximant(x: Array) -> Array:
    """(even + odd) / (even - odd), of the powers of x by Higham's scheme of few products."""
    c, eye = _PADE, np.eye(x.shape[-1])
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2) + c[7] * x6 + c[5] * x4 + c[3] * x2
    odd = x @ (odd + c[1] * eye)
    even = x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2) + c[6] * x6 + c[4] * x4 + c[2] * x2
    even = even + c[0] * eye
    return lapack.solve(even - odd, even + odd)


def matrix_exp(x: Any, /) -> Any:
    """The exponential of square matrices, the sum of x^k / k!.

    Shapes: (..., n, n) -> (..., n, n).
    Computed in float64, of float32 too. Derivatives of every order are blocks of exponentials of
    larger matrices. Higham 2005, "The scaling and squaring method for the matrix exponential
    revisited".

    >>> cr.linalg.matrix_exp(cr.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]], dtype=float32)
    """
    return apply(MatrixExp(), matrices("matrix_exp", x, square=True))
