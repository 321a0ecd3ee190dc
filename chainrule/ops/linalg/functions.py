"""Functions of matrices that are made of other ops: norms, ranks, powers, products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.graph import variable
from chainrule.errors import ConfigError, ShapeError, describe
from chainrule.ops.complex import complex_abs
from chainrule.ops.contraction import matmul
from chainrule.ops.linalg.base import diagonal, matrices
from chainrule.ops.linalg.singular import svdvals
from chainrule.ops.linalg.solving import inv
from chainrule.ops.reductions import norms
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.joining import roll
from chainrule.ops.shapes.shaping import (
    Axis,
    broadcast_arrays,
    expand_dims,
    normalize_axis,
    reshape,
)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum of diagonal number `offset`. Small integers sum as int64.

    Shapes: (..., m, n) -> (...).

    >>> cr.linalg.trace(cr.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5., dtype=float32)
    """
    return red.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def matrix_power(x: Any, n: int, /) -> Any:
    """Square matrices multiplied with themselves `n` times; of the inverse for a negative n.

    Shapes: (..., m, m) -> (..., m, m).
    n = 0 gives the identity. Raises `MatrixError` for a negative n where a matrix is singular.

    >>> cr.linalg.matrix_power(cr.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]], dtype=float32)
    """
    x = matrices("matrix_power", x, square=True)
    if n < 0:
        return matrix_power(inv(x), -n)
    if n == 0:
        eye = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
        return variable(eye) if x.__class__ is not np.ndarray else eye
    power = None
    while True:
        if n & 1:
            power = x if power is None else matmul(power, x)
        n >>= 1
        if not n:
            return power
        x = matmul(x, x)


def vector_norm(x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Any:
    """The vector norm of order `ord` (any number, inf, -inf) over `axis`, as a real number.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).
    Order 0 counts the elements that are not 0. The gradient of order 2 at 0 is 0; where orders inf
    and -inf meet a tie, the elements share it.

    >>> cr.linalg.vector_norm(cr.tensor([3.0, 4.0]))
    tensor(5., dtype=float32)
    """
    return norms.norm(complex_abs(x), axis=axis, keepdims=keepdims, ord=ord)


_SPECTRAL: dict[Any, Any] = {"nuc": red.sum, 2: red.max, -2: red.min}
_LARGEST = {1: (-2, red.max), -1: (-2, red.min), math.inf: (-1, red.max), -math.inf: (-1, red.min)}


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Any:
    """The norm of matrices.

    Shapes: (..., m, n) -> (..., 1, 1) if keepdims; (..., m, n) -> (...).
    `ord` "fro" (or None) is the root of the sum of squares, "nuc" the sum of singular values; 2 and
    -2 are the largest and smallest of these. 1 and -1 are the largest and smallest sum of absolute
    values of a column, inf and -inf those of a row. Several that attain it share the gradient.

    >>> cr.linalg.matrix_norm(cr.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5., dtype=float32)
    """
    x = matrices("matrix_norm", x)
    if ord is None or ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in _SPECTRAL:
        y = _SPECTRAL[ord](svdvals(x), axis=-1)
    elif ord in _LARGEST:
        axis, choose = _LARGEST[ord]
        y = choose(red.sum(complex_abs(x), axis=axis), axis=-1)
    else:
        raise ConfigError(
            f"matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}"
        )
    return expand_dims(y, (-2, -1)) if keepdims else y


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values exceed `rtol` times the largest, as int64.

    Shapes: (..., m, n) -> (...).
    `rtol` is a number or an array (...), by default max(m, n) times the dtype's epsilon.

    >>> cr.linalg.matrix_rank(cr.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1, dtype=int64)
    """
    x = matrices("matrix_rank", x)
    s = svdvals(x)
    if 0 in x.shape[-2:]:
        return red.count_nonzero(s > 0, axis=-1)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    limit = red.max(s, axis=-1, keepdims=True) * (
        expand_dims(rtol, -1) if hasattr(rtol, "ndim") and rtol.ndim else rtol
    )
    return red.count_nonzero(s > limit, axis=-1)


def cross(x1: Any, x2: Any, /, axis: int = -1) -> Any:
    """The cross product of vectors of 3 elements along `axis`; the other axes broadcast.

    Shapes: (..., axis: 3), (..., axis: 3) -> (..., axis: 3).

    >>> cr.linalg.cross(cr.tensor([1.0, 0.0, 0.0]), cr.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.], dtype=float32)
    """
    at = [normalize_axis(axis, x.ndim) for x in (x1, x2)]
    if [x.shape[a] for x, a in zip((x1, x2), at, strict=True)] != [3, 3]:
        raise ShapeError(
            f"cross needs 3 elements along axis {axis}, not {describe(x1)} and {describe(x2)}"
        )
    a, b = broadcast_arrays(x1, x2)
    after = [roll(x, -1, axis=axis) for x in (a, b)]
    return roll(a * after[1] - after[0] * b, -1, axis=axis)


def kron(a: Any, b: Any, /) -> Any:
    """The Kronecker product: every element of `a` times all of `b`, in blocks.

    Shapes: (*s), (*t) -> (*u) with prod(u) == prod(s) * prod(t) and len(u) == max(len(s), len(t)).
    Shapes multiply axis by axis; the array with fewer axes gets axes of size 1 in front.

    >>> cr.linalg.kron(cr.eye(2), cr.tensor([[1.0, 2.0]]))
    tensor([[1., 2., 0., 0.],
            [0., 0., 1., 2.]], dtype=float32)
    """
    ndim = max(a.ndim, b.ndim)
    left, right = [(1,) * (ndim - x.ndim) + tuple(x.shape) for x in (a, b)]
    wide = reshape(a, [n for m in left for n in (m, 1)])
    wide = wide * reshape(b, [n for m in right for n in (1, m)])
    return reshape(wide, [m * n for m, n in zip(left, right, strict=True)])
