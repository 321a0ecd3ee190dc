"""What the linear algebra ops share: their error, checks, conjugate transposes, diagonals, masks.

Notation in this package: `m n` rows and columns, `k` the smaller of them; `mT` the transpose, `mH`
its conjugate. Rules of ops that are not holomorphic are written for the conjugate G = conj(g), as
in the literature. These ops have an mH in their definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.engine.dtypes import NARROW
from chainrule.engine.graph import Variable, apply
from chainrule.engine.op import Need, Op, Spec
from chainrule.errors import ChainruleError, DtypeError, ShapeError, describe
from chainrule.ops.families import Linear, conj
from chainrule.ops.indexing.selection import where
from chainrule.ops.shapes.shaping import Shape, astype, matrix_transpose

lapack: Any = np.linalg
"""NumPy's functions, whose own annotations leave dtypes unknown."""


class MatrixError(ChainruleError, np.linalg.LinAlgError):
    """A matrix without the property that was asked of it: singular, or not positive definite.

    Also a `numpy.linalg.LinAlgError`, and so a `ValueError`.
    """


def matrices(what: str, x: Any, *, square: bool = False) -> Any:
    """`x`, in float64 if it holds integers; raises where it has no (square) matrices."""
    if x.ndim < 2:
        raise ShapeError(f"{what} needs a matrix (at least 2 axes), not {describe(x)}")
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{what} needs square matrices, not {describe(x)}")
    if x.dtype.char in NARROW:
        raise DtypeError(f"{what}: {x.dtype} is too coarse; say x.astype('float32') first")
    return x if x.dtype.kind in "fc" else astype(x, np.float64)


def mh(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return conj(matrix_transpose(x))


def outputs(op: Op, y: Any, x: Any) -> Any:
    """The outputs `y` of an op, computed again if only through `x` they can be differentiated."""
    return apply(op, x) if isinstance(x, Variable) and not isinstance(y[0], Variable) else y


def which(bad: Callable[[Any], bool], x: Any) -> str:
    """Words for the first matrix of a batch that is `bad`."""
    if x.ndim == 2:
        return "the matrix"
    for place in np.ndindex(x.shape[:-2]):
        if bad(x[place]):
            return f"matrix {list(place)} of the batch"
    return "a matrix of the batch"


def is_singular(x: Any) -> bool:
    """Whether elimination meets a pivot that is exactly 0."""
    return bool(np.linalg.slogdet(x)[0] == 0)


def singular(what: str, x: Any) -> MatrixError:
    """The error of an op that has to divide by a singular matrix."""
    return MatrixError(
        f"{what}: {which(is_singular, x)} {describe(x)} is singular, so it has no inverse; "
        "pinv gives a least-squares answer"
    )


# --- Triangles and diagonals ---------------------------------------------------------------------


def lower(x: Any, offset: int = 0) -> Any:
    """`x` with 0 above diagonal number `offset`."""
    return where(np.tri(x.shape[-2], x.shape[-1], offset, dtype=bool), x, 0)


def upper(x: Any, offset: int = 0) -> Any:
    """`x` with 0 below diagonal number `offset`."""
    return where(np.tri(x.shape[-2], x.shape[-1], offset - 1, dtype=bool), 0, x)


def halved_diagonal(n: int, dtype: Any) -> Any:
    """An (n, n) array of ones with a half on the diagonal, in the real dtype of `dtype`."""
    half = np.ones((n, n)) - 0.5 * np.eye(n)
    return half.astype(np.empty(0, dtype).real.dtype)


class Diagonal(Linear):
    """Diagonal number `offset` (above the main one if positive) of the last two axes."""

    offset: int

    @property
    def name(self) -> str:
        """`diagonal`."""
        return "diagonal"

    def eval(self, *xs: Any) -> Any:
        """A view."""
        return np.diagonal(xs[0], self.offset, -2, -1)

    def spec(self, *xs: Any) -> Spec:
        """(..., m, n) -> (..., length)."""
        return Spec((*xs[0].shape[:-2], _length(xs[0].shape, self.offset)), xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Zeros, with `g` on that diagonal."""
        return (apply(Diagonally(self.offset, tuple(xs[0].shape[-2:])), g),)


class Diagonally(Linear):
    """Matrices of `shape`, zero but for diagonal number `offset`: the transpose of `Diagonal`."""

    offset: int
    shape: Shape

    @property
    def name(self) -> str:
        """`diag_embed`."""
        return "diag_embed"

    def eval(self, *xs: Any) -> Any:
        """A new array."""
        (x,) = xs
        y = np.zeros((*x.shape[:-1], *self.shape), x.dtype)
        first = max(-self.offset, 0)
        row = np.arange(first, first + int(x.shape[-1]))
        y[..., row, row + self.offset] = x
        return y

    def spec(self, *xs: Any) -> Spec:
        """(..., length) -> (..., m, n)."""
        length = _length(self.shape, self.offset)
        if xs[0].shape[-1:] != (length,):
            raise ShapeError(f"{xs[0].shape} does not fit a diagonal of {length} elements")
        return Spec((*xs[0].shape[:-1], *self.shape), xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The diagonal."""
        return (apply(Diagonal(self.offset), g),)


def _length(shape: Sequence[int], offset: int) -> int:
    m, n = shape[-2:]
    return max(min(m + min(offset, 0), n - max(offset, 0)), 0)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Diagonal number `offset` of the last two axes (0 the main one, 1 above it, -1 below it).

    Shapes: (..., m, n) -> (..., max(0, min(m + min(offset, 0), n - max(offset, 0)))).
    It has no elements where the matrix has no such diagonal.

    >>> cr.linalg.diagonal(cr.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.], dtype=float32)
    """
    if x.ndim < 2:
        raise ShapeError(f"diagonal needs a matrix (at least 2 axes), not {describe(x)}")
    return apply(Diagonal(offset), x)


def diagonally(x: Any) -> Any:
    """Square matrices (..., n, n) with the vectors `x` (..., n) on their main diagonal."""
    n = x.shape[-1]
    return apply(Diagonally(0, (n, n)), x)
