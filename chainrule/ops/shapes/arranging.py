"""Arrays cut, joined and combined: what NumPy and PyTorch offer beyond the Array API standard."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.complex import conj, real, real_dtype
from chainrule.ops.contraction import matmul, tensordot
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.indexing.scattering import diag_embed, diff
from chainrule.ops.indexing.selection import take, where
from chainrule.ops.linalg.base import diagonal
from chainrule.ops.reductions import reduction as red
from chainrule.ops.reductions.scan import cumsum
from chainrule.ops.shapes.joining import concat, split, stack
from chainrule.ops.shapes.padding import pad
from chainrule.ops.shapes.shaping import (
    astype,
    broadcast_arrays,
    expand_dims,
    flatten,
    normalize_axis,
    permute_dims,
    reshape,
    roomy,
    swapaxes,
)
from chainrule.ops.shapes.slices import flip

# --- Cutting -------------------------------------------------------------------------------------


def _part(x: Any, axis: int, key: Any) -> Any:
    return getitem(x, (*[slice(None)] * normalize_axis(axis, x.ndim), key))


def narrow(x: Any, axis: int, start: int, length: int) -> Any:
    """`length` elements of `x` along `axis`, from `start` on (which may count from the end).

    Shapes: (*s, axis: n) -> (*s, axis: length).

    >>> cr.narrow(cr.arange(5.0), 0, 1, 3)
    tensor([1., 2., 3.], dtype=float32)
    """
    n = x.shape[normalize_axis(axis, x.ndim)]
    first = start + n if start < 0 else start
    if first < 0 or length < 0 or first + length > n:
        raise ShapeError(f"narrow: {length} elements from {start} on are not in axis of size {n}")
    return _part(x, axis, slice(first, first + length))


def select(x: Any, axis: int, index: int) -> Any:
    """The slice of `x` at `index` along `axis`, without that axis.

    Shapes: (*s, axis: n) -> (*s).

    >>> cr.select(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), 0, 1)
    tensor([3., 4.], dtype=float32)
    """
    return _part(x, axis, index)


def chunk(x: Any, count: int, axis: int = 0) -> tuple[Any, ...]:
    """At most `count` pieces of `x` along `axis`, all of one size but for the last.

    Shapes: (*s, axis: n) -> [(*s, axis: n_i)] with sum(n_i) == n.

    >>> [x.shape for x in cr.chunk(cr.ones((5, 2)), 2)]
    [(3, 2), (2, 2)]
    """
    if count < 1:
        raise ShapeError(f"chunk: the number of pieces is at least 1, not {count}")
    return split(x, max(1, -(-x.shape[normalize_axis(axis, x.ndim)] // count)), axis=axis)


def tensor_split(x: Any, where: int | Sequence[int], axis: int = 0) -> tuple[Any, ...]:
    """`x` cut along `axis` at the given places, or into that many pieces, the larger ones first.

    Shapes: (*s, axis: n) -> [(*s, axis: n_i)] with sum(n_i) == n.

    >>> [x.shape for x in cr.tensor_split(cr.ones(5), [2, 3])]
    [(2,), (1,), (2,)]
    """
    n = x.shape[normalize_axis(axis, x.ndim)]
    if isinstance(where, int):
        if not 1 <= where <= max(n, 1 << 16):
            raise ShapeError(f"tensor_split: {where} pieces cannot be made of {n} elements")
        cuts = [(n * i) // where if n % where == 0 else 0 for i in range(where + 1)]
        if n % where:
            sizes = [n // where + (i < n % where) for i in range(where)]
            cuts = [0, *itertools.accumulate(sizes)]
    else:
        cuts = [0, *where, n]
    return tuple([_part(x, axis, slice(a, b)) for a, b in itertools.pairwise(cuts)])


def unflatten(x: Any, axis: int, sizes: Sequence[int]) -> Any:
    """`x` with `axis` cut into several axes of the given sizes, one of which may be -1.

    Shapes: (*s, axis: n) -> (*u) with prod(u) == prod(s) * n and len(u) == len(s) + len(sizes).

    >>> cr.unflatten(cr.ones((2, 12)), 1, (3, 4)).shape
    (2, 3, 4)
    """
    place = normalize_axis(axis, x.ndim)
    n = x.shape[place]
    known = int(np.prod([s for s in sizes if s != -1], dtype=int))
    full = [n // max(known, 1) if s == -1 else s for s in sizes]
    if int(np.prod(full, dtype=int)) != n:
        raise ShapeError(f"unflatten: axis {axis} of {x.shape} is not cut into {tuple(sizes)}")
    return reshape(x, [*x.shape[:place], *full, *x.shape[place + 1 :]])


def unfold(x: Any, axis: int, size: int, step: int) -> Any:
    """All windows of `size` elements along `axis`, every `step`: (.., n, ..) -> (.., w, .., size).

    A number counts as one element.
    """
    if x.ndim == 0:
        x = reshape(x, (1,))[:size]
        return x if size <= 1 else unfold(x, 0, size, step)
    place = normalize_axis(axis, x.ndim)
    n = x.shape[place]
    if step < 1 or not 0 <= size <= n:
        raise ShapeError(f"unfold: no windows of {size}, every {step}, in axis of size {n}")
    places = [range(i, i + size) for i in range(0, n - size + 1, step)]
    windows = take(x, np.array(places, np.int64).reshape(-1, size), axis=place)
    order = [i for i in range(windows.ndim) if i != place + 1]
    return permute_dims(windows, (*order, place + 1))


def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """`x` turned k times by a right angle, from the first towards the second of `axes`.

    Shapes: (*s, axes: n) -> (*s, axes: n[::-1]) if k % 2; (*s) -> (*s).

    >>> cr.rot90(cr.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 4.],
            [1., 3.]], dtype=float32)
    """
    a, b = axes
    if normalize_axis(a, x.ndim) == normalize_axis(b, x.ndim):
        raise ShapeError(f"rot90: {axes} names one axis twice")
    if k % 4 == 0:
        return x
    if k % 4 == 2:
        return flip(x, axis=(a, b))
    return flip(swapaxes(x, a, b), axis=a if k % 4 == 1 else b)


# --- Joining -------------------------------------------------------------------------------------


def atleast(x: Any, ndim: int) -> Any:
    """`x` with at least `ndim` (1, 2 or 3) axes, as NumPy adds them: (n,), (1, n), (1, n, 1).

    Shapes: (*s) -> (*t) with len(t) == max(len(s), ndim) and prod(t) == prod(s).

    >>> cr.atleast(cr.tensor(5.0), 2).shape
    (1, 1)
    """
    if ndim >= 1 and x.ndim == 0:
        x = reshape(x, (1,))
    if ndim >= 2 and x.ndim == 1:
        x = expand_dims(x, 0)
    return expand_dims(x, 2) if ndim >= 3 and x.ndim == 2 else x


def hstack(xs: Sequence[Any]) -> Any:
    """Joined along the second axis, vectors along the first.

    Shapes: [(n_i)] -> (sum(n_i)); [(m, n_i, *s)] -> (m, sum(n_i), *s).

    >>> cr.hstack([cr.tensor([1.0, 2.0]), cr.tensor([3.0])])
    tensor([1., 2., 3.], dtype=float32)
    """
    full = [atleast(x, 1) for x in xs]
    return concat(full, axis=0 if full[0].ndim == 1 else 1)


def vstack(xs: Sequence[Any]) -> Any:
    """Joined along the first axis, vectors as rows.

    Shapes: [(n)] -> (len(xs), n); [(m_i, n, *s)] -> (sum(m_i), n, *s); [(*s_i)] -> (k, n).

    >>> cr.vstack([cr.tensor([1.0, 2.0]), cr.tensor([3.0, 4.0])])
    tensor([[1., 2.],
            [3., 4.]], dtype=float32)
    """
    return concat([atleast(x, 2) for x in xs], axis=0)


def dstack(xs: Sequence[Any]) -> Any:
    """Joined along the third axis.

    Shapes: [(n)] -> (1, n, len(xs));
        [(m, n)] -> (m, n, len(xs));
        [(m, n, k_i)] -> (m, n, sum(k_i)).

    >>> cr.dstack([cr.ones((2, 3)), cr.ones((2, 3))]).shape
    (2, 3, 2)
    """
    return concat([atleast(x, 3) for x in xs], axis=2)


def column_stack(xs: Sequence[Any]) -> Any:
    """Joined along the second axis, vectors and numbers as columns.

    Shapes: [(m, n_i, *s)] -> (m, sum(n_i), *s);
        [(*s_i)] -> (m, sum([1, 1, *s][-1] if len(s) > 1 else 1 for s in s_i)).

    >>> cr.column_stack([cr.tensor([1.0, 2.0]), cr.tensor([3.0, 4.0])])
    tensor([[1., 3.],
            [2., 4.]], dtype=float32)
    """
    return hstack([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in xs])


def block_diag(*xs: Any) -> Any:
    """The matrices `xs` along the diagonal of one, zeros elsewhere; vectors count as rows.

    Shapes: [(m_i, n_i)] -> (sum(m_i), sum(n_i));
        [(*s_i)] -> (sum([1, 1, *s][-2] for s in s_i), sum([1, 1, *s][-1] for s in s_i)).

    >>> cr.block_diag(cr.ones((1, 2)), cr.tensor([[5.0]]))
    tensor([[1., 1., 0.],
            [0., 0., 5.]], dtype=float32)
    """
    full = [atleast(x, 2) for x in xs]
    if any(x.ndim != 2 for x in full):
        raise ShapeError(f"block_diag: needs matrices, not {[x.shape for x in xs]}")
    width = sum(x.shape[1] for x in full)
    rows: list[Any] = []
    start = 0
    for x in full:
        rows.append(pad(x, [(0, 0), (start, width - start - x.shape[1])]))
        start += x.shape[1]
    return concat(rows, axis=0)


def cartesian_prod(*xs: Any) -> Any:
    """All combinations of one element of each vector, the last changing fastest.

    Shapes: [(n)] -> (n) if len(xs) == 1; [(n_i)] -> (prod(n_i), len(xs)).

    >>> cr.cartesian_prod(cr.tensor([1, 2]), cr.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]], dtype=int64)
    """
    if len(xs) == 1:
        return xs[0]
    wide = broadcast_arrays(
        *[reshape(x, [-1 if j == i else 1 for j in range(len(xs))]) for i, x in enumerate(xs)]
    )
    return stack([flatten(w) for w in wide], axis=-1)


# --- Diagonals -----------------------------------------------------------------------------------


def diag(x: Any, offset: int = 0) -> Any:
    """The matrix with the vector `x` as diagonal number `offset`, or that diagonal of a matrix.

    Shapes: (n) -> (n + abs(offset), n + abs(offset));
        (m, n) -> (max(0, min(m + min(offset, 0), n - max(offset, 0)))).

    >>> cr.diag(cr.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]], dtype=float32)
    """
    if x.ndim not in (1, 2):
        raise ShapeError(f"diag: needs a vector or a matrix, not {x.shape}")
    return diag_embed(x, offset=offset) if x.ndim == 1 else diagonal(x, offset=offset)


# --- Combining -----------------------------------------------------------------------------------


def addmm(x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta x + alpha (a @ b), to which `x` broadcasts.

    Shapes: a (..., m, k), b (..., k, n) -> (..., m, n).
    Where beta is 0 `x` is not read, so that its infinities and NaN do not spread.

    >>> cr.addmm(cr.ones((2, 2)), cr.eye(2), cr.eye(2), alpha=3.0)
    tensor([[4., 1.],
            [1., 4.]], dtype=float32)
    """
    product = matmul(a, b) if alpha == 1 else alpha * matmul(a, b)
    return product + x * beta if beta else product


def inner(a: Any, b: Any) -> Any:
    """The sum of products along the last axes; numbers multiply.

    Shapes: (*s, n), (*t, n) -> (*(s + t)); (...), (...) -> (...).

    >>> cr.inner(cr.tensor([1.0, 2.0]), cr.tensor([3.0, 4.0]))
    tensor(11., dtype=float32)
    """
    return a * b if 0 in (a.ndim, b.ndim) else tensordot(a, b, axes=([-1], [-1]))


@roomy
def trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along `axis` by the trapezoidal rule, at the points `x` or `dx` apart.

    Shapes: (*s, axis: n) -> (*s).

    >>> cr.trapezoid(cr.tensor([0.0, 1.0, 2.0]), dx=0.5)
    tensor(1., dtype=float32)
    """
    return red.sum(_trapezoids(y, x, dx, axis), axis=axis)


@roomy
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral up to each point but the first along `axis`; see `trapezoid`.

    Shapes: (*s, axis: n) -> (*s, axis: n - 1).

    >>> cr.cumulative_trapezoid(cr.tensor([0.0, 1.0, 2.0]))
    tensor([0.5, 2. ], dtype=float32)
    """
    return cumsum(_trapezoids(y, x, dx, axis), axis)


def _trapezoids(y: Any, x: Any, dx: Any, axis: int) -> Any:
    y = red.floating(y)  # 100 + 100 is -56 in int8
    heights = _part(y, axis, slice(1, None)) + _part(y, axis, slice(None, -1))
    if x is None:
        return heights * (0.5 * dx)
    if x.ndim == 1:
        place = normalize_axis(axis, y.ndim)
        x = reshape(x, [-1 if i == place else 1 for i in range(y.ndim)])
    return 0.5 * heights * diff(x, axis=axis)


# --- Statistics ----------------------------------------------------------------------------------


@roomy
def nansum(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The sum over `axis` with NaN counted as 0.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.nansum(cr.tensor([1.0, float("nan"), 3.0]))
    tensor(4., dtype=float32)
    """
    return red.sum(where(ew.isnan(x), 0, x), axis=axis, keepdims=keepdims)


@roomy
def nanmean(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The mean over `axis` of what is not NaN; NaN where there is nothing else.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.nanmean(cr.tensor([1.0, float("nan"), 3.0]))
    tensor(2., dtype=float32)
    """
    x = red.floating(x)  # 300 is no int8
    count = red.count_nonzero(x == x, axis=axis, keepdims=keepdims)
    return nansum(x, axis=axis, keepdims=keepdims) / astype(count, x.dtype)


@roomy
def cov(x: Any, *, correction: float = 1, weights: Any = None) -> Any:
    """Covariances of the rows of `x` (variables, observations).

    Shapes: (n) -> (); (1, n) -> (); (m, n) -> (m, m).
    Of complex variables the Hermitian matrix of E[x_i conj(x_j)], as in NumPy.
    `weights` (observations,) says how much each observation counts. The sum of products is divided
    by the observations minus `correction`; weighted as in NumPy's `aweights`.

    >>> cr.cov(cr.tensor([[1.0, 2.0, 3.0], [1.0, 3.0, 5.0]]))
    tensor([[1., 2.],
            [2., 4.]], dtype=float32)
    """
    x = atleast(x, 2)
    n = x.shape[1]
    w = np.ones(n, real_dtype(x.dtype)) if weights is None else weights
    total = red.sum(w)
    centered = x - red.sum(x * w, axis=1, keepdims=True) / total
    freedom = ew.at_least(total - correction * red.sum(w * w) / total, 0)
    c = matmul(centered * w, conj(swapaxes(centered, 0, 1))) / freedom
    return reshape(c, ()) if c.shape == (1, 1) else c


@roomy
def corrcoef(x: Any) -> Any:
    """Correlations of the rows of `x` (variables, observations).

    Shapes: (n) -> (); (1, n) -> (); (m, n) -> (m, m).

    >>> cr.corrcoef(cr.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]], dtype=float32)
    """
    c = cov(x)
    if c.ndim == 0:
        return c / c
    size = ew.sqrt(real(red.sum(where(np.eye(c.shape[0], dtype=bool), c, 0), axis=-1)))
    return c / expand_dims(size, 1) / expand_dims(size, 0)


@roomy
def vander(x: Any, columns: int | None = None, *, increasing: bool = True) -> Any:
    """Powers of each element along a new last axis, 0 first (last if not `increasing`).

    Shapes: (*s, n) -> (*s, n, n) if columns is None; (*s) -> (*s, columns).

    >>> cr.vander(cr.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 1., 1.],
            [1., 2., 4.],
            [1., 3., 9.]], dtype=float32)
    """
    if x.ndim == 0:
        raise ShapeError("vander: needs at least one axis, not a number")
    n = x.shape[-1] if columns is None else columns
    powers = np.arange(n) if increasing else np.arange(n)[::-1]
    if x.dtype.kind in "biu":
        x = astype(x, np.int64)  # as NumPy: powers soon leave a narrow dtype
    return expand_dims(x, -1) ** powers.astype(x.dtype)
