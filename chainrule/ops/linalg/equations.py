"""Equations beside `solve`: by least squares, and of tensors; products and reflections of several.

All are made of other ops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from chainrule.errors import ConfigError, ShapeError, describe
from chainrule.ops.complex import squared_size
from chainrule.ops.contraction import matmul
from chainrule.ops.families import conj
from chainrule.ops.indexing.selection import where
from chainrule.ops.linalg.base import matrices, mh
from chainrule.ops.linalg.functions import matrix_norm, matrix_rank, vector_norm
from chainrule.ops.linalg.singular import pinv, svdvals
from chainrule.ops.linalg.solving import equations, inv, solve, solve_triangular
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import Axis, expand_dims, moveaxis, permute_dims, reshape


class LstsqResult(NamedTuple):
    """The solution, the sum of squares left of each column of b, the rank, the singular values."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def lstsq(a: Any, b: Any, /, *, rtol: Any = None) -> LstsqResult:
    """The shortest y with the least sum of squares of a y - b.

    Shapes: (..., m, n), b (..., m, k) -> (..., n, k), (..., k), (...), (..., min(m, n));
        (m, n), b (m) -> (n), (), (), (min(m, n)).
    Singular values up to `rtol` times the largest count as 0, as in `pinv`, whose derivative this
    has. The residuals are there for every shape and rank.

    >>> x = cr.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> cr.linalg.lstsq(x, cr.tensor([[1.0], [3.0], [5.0]]))[0].shape
    (2, 1)
    """
    if b.ndim == 1:
        found = lstsq(a, reshape(b, (-1, 1)), rtol=rtol)
        return LstsqResult(found[0][..., 0], found[1][..., 0], *found[2:])
    a, b = matrices("lstsq", a), matrices("lstsq", b)
    if a.shape[-2] != b.shape[-2]:
        raise ShapeError(
            f"lstsq: {describe(a)} has {a.shape[-2]} equations, {describe(b)} has {b.shape[-2]}"
        )
    y = matmul(pinv(a, rtol=rtol), b)
    left = red.sum(squared_size(matmul(a, y) - b), axis=-2)
    return LstsqResult(y, left, matrix_rank(a, rtol=rtol), svdvals(a))


def cholesky_solve(b: Any, factor: Any, /, *, upper: bool = False) -> Any:
    """The y with x y = b, from the triangle that `cholesky(x)` gives (its conjugate transpose if
    `upper`).

    Shapes: (..., n, k), (..., n, n) -> (..., n, k).

    >>> cr.linalg.cholesky_solve(cr.tensor([[4.0], [8.0]]), cr.tensor([[2.0, 0.0], [0.0, 2.0]]))
    tensor([[1.],
            [2.]], dtype=float32)
    """
    factor, b = equations("cholesky_solve", factor, b)
    other = mh(factor)
    first, second = (other, factor) if upper else (factor, other)
    return solve_triangular(second, solve_triangular(first, b), upper=True)


def cholesky_inverse(factor: Any, /, *, upper: bool = False) -> Any:
    """The inverse of x, from the triangle that `cholesky(x)` gives (its conjugate transpose if
    `upper`).

    Shapes: (..., n, n) -> (..., n, n).

    >>> cr.linalg.cholesky_inverse(cr.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.25  , 0.    ],
            [0.    , 0.0625]], dtype=float32)
    """
    factor = matrices("cholesky_inverse", factor, square=True)
    return cholesky_solve(np.eye(factor.shape[-1], dtype=factor.dtype), factor, upper=upper)


def tensorinv(x: Any, /, ind: int = 2) -> Any:
    """The inverse of x as a matrix whose rows are the first `ind` axes, and columns the others.

    Shapes: (*s) -> (*(s[ind:] + s[:ind])).

    >>> cr.linalg.tensorinv(cr.eye(6).reshape((2, 3, 6)), ind=2).shape
    (6, 2, 3)
    """
    rows, columns = x.shape[:ind], x.shape[ind:]
    if ind < 1 or math.prod(rows) != math.prod(columns):
        raise ShapeError(
            f"tensorinv: the first {ind} axes of {describe(x)} have as many elements as the others"
        )
    square = reshape(x, (math.prod(rows), math.prod(columns)))
    return reshape(inv(square), (*columns, *rows))


def tensorsolve(a: Any, b: Any, /, axes: Sequence[int] | None = None) -> Any:
    """The y with tensordot(a, y, y.ndim) = b; `axes` of a are moved to its end first.

    Shapes: (*s), (*t) -> (*u) with prod(u) == prod(t).

    >>> cr.linalg.tensorsolve(cr.eye(6).reshape((2, 3, 6)), cr.ones((2, 3))).shape
    (6,)
    """
    if axes is not None:
        ends = tuple(range(a.ndim - len(axes), a.ndim))
        a = moveaxis(a, tuple(axes), ends)
    shape = tuple(a.shape[b.ndim :])
    if math.prod(shape) != b.size or a.size != b.size**2:
        raise ShapeError(
            f"tensorsolve: {describe(a)} is a matrix of the elements of {describe(b)} by those of "
            f"the solution, of as many: not of {shape}"
        )
    return reshape(solve(reshape(a, (b.size, b.size)), reshape(b, (-1,))), shape)


def multi_dot(xs: Sequence[Any], /) -> Any:
    """The product of two or more matrices, in the order that takes the fewest multiplications.

    Shapes: [(*s_i)] -> (*u).
    The first may be a row and the last a column: vectors. Cormen et al., "Introduction to
    Algorithms", section 14.2.

    >>> cr.linalg.multi_dot([cr.ones((2, 3)), cr.ones((3, 4)), cr.ones((4, 5))]).shape
    (2, 5)
    """
    if len(xs) < 2:
        raise ConfigError(f"multi_dot: needs at least two matrices, not {len(xs)}")
    first, last = xs[0].ndim == 1, xs[-1].ndim == 1
    full = list(xs)
    full[0] = expand_dims(xs[0], 0) if first else xs[0]
    full[-1] = expand_dims(xs[-1], 1) if last else full[-1]
    pairs = itertools.pairwise(full)
    if any(x.ndim != 2 for x in full) or any(a.shape[1] != b.shape[0] for a, b in pairs):
        raise ShapeError(f"multi_dot: matrices that fit, not {[tuple(x.shape) for x in xs]}")
    y = _product(full, _cuts([int(x.shape[0]) for x in full] + [int(full[-1].shape[1])]))
    return reshape(y, [n for n, drop in zip(y.shape, (first, last), strict=True) if not drop])


Cuts = dict[tuple[int, int], int]


def _cuts(sizes: list[int]) -> Cuts:
    """Where to cut each run of matrices in two: matrix i is (sizes[i], sizes[i + 1])."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cuts: Cuts = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], cuts[i, j] = min(options)
    return cuts


def _product(xs: list[Any], cuts: Cuts) -> Any:
    def of(i: int, j: int) -> Any:
        return xs[i] if i == j else matmul(of(i, cuts[i, j]), of(cuts[i, j] + 1, j))

    return of(0, len(xs) - 1)


def cond(x: Any, /, p: float | str | None = None) -> Any:
    """How much larger relative errors of a solution are than those of the data.

    Shapes: (..., m, n) -> (...) if p in (None, 2, -2); (..., n, n) -> (...).
    The largest singular value by the smallest (p None or 2) or the other way round (-2), or the
    norm `p` (see `matrix_norm`) of x times that of its inverse.

    >>> cr.linalg.cond(cr.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2., dtype=float32)
    """
    if p in (None, 2, -2):
        s = svdvals(x)
        ends = s[..., 0], s[..., -1]
        return ends[1] / ends[0] if p == -2 else ends[0] / ends[1]
    x = matrices("cond", x, square=True)
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)


def norm(
    x: Any,
    /,
    ord: float | str | None = None,
    axis: Axis = None,
    *,
    keepdims: bool = False,
) -> Any:
    """NumPy's and PyTorch's name for `vector_norm` and `matrix_norm`.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).
    Of matrices if `axis` are two, or if there is an `ord` and x is a matrix; otherwise of vectors,
    or without an `ord` and an axis of all elements.

    >>> cr.linalg.norm(cr.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5., dtype=float32)
    """
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    if ord is None or (len(axes) == 1 and not isinstance(ord, str)):
        return vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)  # type: ignore[arg-type]
    if len(axes) != 2:
        raise ConfigError(f"norm: ord {ord!r} is of one axis or two, not of {len(axes)}")
    y = matrix_norm(moveaxis(x, tuple(axes), (-2, -1)), ord=ord)
    return expand_dims(y, tuple(sorted([a % x.ndim for a in axes]))) if keepdims else y


def householder_product(x: Any, tau: Any, /) -> Any:
    """The first n columns of the product of the reflections 1 - tau_i v_i v_iH, as LAPACK has them.

    Shapes: (..., m, n), (..., k) -> (..., m, n).
    Vector i is column i of x below its diagonal, with 1 on it and 0 above.

    >>> cr.linalg.householder_product(cr.tensor([[1.0], [0.0]]), cr.tensor([2.0]))
    tensor([[-1.],
            [ 0.]], dtype=float32)
    """
    x = matrices("householder_product", x)
    m, n = x.shape[-2:]
    k = int(tau.shape[-1])
    if k > n or n > m:
        raise ShapeError(
            f"householder_product: x is (m, n) with m >= n, and tau has at most n elements, not "
            f"{describe(x)} and {describe(tau)}"
        )
    y: Any = np.eye(m, n, dtype=x.dtype)
    rows = cast(Any, np.arange(m))
    for i in reversed(range(k)):
        v = where(rows == i, 1, where(rows > i, x[..., i], 0))
        v = expand_dims(v, -1)
        share = expand_dims(tau[..., i : i + 1], -1) * matmul(_row(conj(v)), y)
        y = y - v * share
    return y


def _row(v: Any) -> Any:
    """(..., m, 1) -> (..., 1, m)."""
    return permute_dims(v, (*range(v.ndim - 2), v.ndim - 1, v.ndim - 2))
