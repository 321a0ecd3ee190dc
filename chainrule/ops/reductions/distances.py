"""Distances and angles between vectors. `ord` is the order of the norm, any float from 0 to inf."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.engine.dtypes import check_real
from chainrule.errors import ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.indexing.selection import where
from chainrule.ops.reductions import norms
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import broadcast_arrays, expand_dims, normalize_axis, roomy


@roomy
def dist(a: Any, b: Any, ord: float = 2) -> Any:
    """The norm of all elements of a - b, which broadcast: a number.

    Shapes: (...), (...) -> ().

    >>> cr.dist(cr.tensor([0.0, 0.0]), cr.tensor([3.0, 4.0]))
    tensor(5., dtype=float32)
    """
    return norms.norm(red.floating(a) - b, ord=ord)


@roomy
def cdist(a: Any, b: Any, *, ord: float = 2) -> Any:
    """The distance of each row of `a` to each row of `b`.

    Shapes: (..., m, d), (..., n, d) -> (..., m, n).
    Leading axes broadcast. The gradient between equal rows is 0.

    >>> cr.cdist(cr.tensor([[0.0, 0.0]]), cr.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]], dtype=float32)
    """
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"cdist: needs (.., m, d) and (.., n, d), not {a.shape} and {b.shape}")
    return norms.norm(expand_dims(red.floating(a), -2) - expand_dims(b, -3), axis=-1, ord=ord)


@roomy
def pdist(x: Any, *, ord: float = 2) -> Any:
    """The distances of all pairs of rows of `x`, those of row 0 first.

    Shapes: (n, d) -> (n * (n - 1) // 2).

    >>> cr.pdist(cr.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.       , 1.       , 4.2426405], dtype=float32)
    """
    if x.ndim != 2:
        raise ShapeError(f"pdist: needs rows (n, d), not {x.shape}")
    x = red.floating(x)
    i, j = np.triu_indices(x.shape[0], 1)
    return norms.norm(getitem(x, i) - getitem(x, j), axis=-1, ord=ord)


@roomy
def pairwise_distance(
    a: Any, b: Any, *, ord: float = 2, eps: float = 1e-6, keepdims: bool = False
) -> Any:
    """The norm of a - b + eps along the last axis.

    Shapes: (..., d), (..., d) -> (..., 1) if keepdims; (..., d), (..., d) -> (...).

    >>> cr.pairwise_distance(cr.zeros((1, 2)), cr.tensor([[3.0, 4.0]]))
    tensor([4.9999986], dtype=float32)
    """
    return norms.norm(red.floating(a) - b + eps, axis=-1, ord=ord, keepdims=keepdims)


@roomy
def cosine_similarity(a: Any, b: Any, axis: int = 1, *, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along `axis`; lengths count as at least `eps`.

    Shapes: (..., axis: n), (..., axis: n) -> (...);
        (*s), (*t) -> (*u) with len(u) == max(len(s), len(t)) - 1.

    >>> cr.cosine_similarity(cr.tensor([1.0, 0.0]), cr.tensor([1.0, 1.0]), axis=0)
    tensor(0.70710677, dtype=float32)
    """
    check_real("cosine_similarity", a, b)
    a, b = broadcast_arrays(a, b)
    lengths = [ew.at_least(norms.norm(x, axis=axis, keepdims=True), eps) for x in (a, b)]
    return red.sum((a / lengths[0]) * (b / lengths[1]), axis=axis)


@roomy
def normalize(x: Any, ord: float = 2, axis: int = 1, *, eps: float = 1e-12) -> Any:
    """`x` divided by its norm along `axis`, which counts as at least `eps`. Same shape.

    Shapes: (*s) -> (*s).

    >>> cr.normalize(cr.tensor([3.0, 4.0]), axis=0)
    tensor([0.6, 0.8], dtype=float32)
    """
    return x / ew.at_least(norms.norm(x, axis=axis, ord=ord, keepdims=True), eps)


@roomy
def renorm(x: Any, ord: float, axis: int, limit: float) -> Any:
    """`x` with each slice along `axis` whose norm exceeds `limit` scaled down to it. Same shape.

    Shapes: (*s) -> (*s).

    >>> cr.renorm(cr.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6, 0.8],
            [0.3, 0.4]], dtype=float32)
    """
    kept = normalize_axis(axis, x.ndim)
    rest = tuple([i for i in range(x.ndim) if i != kept])
    size = norms.norm(x, axis=rest, ord=ord, keepdims=True)
    return x * where(size > limit, limit / (size + 1e-7), 1)  # PyTorch's guard against 0
