"""Losses with a margin: what is better by less than the margin costs something. Functions of ops.

`reduction` is "mean", "sum" or "none". Notation: C classes, d width of a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.accidental_broadcast import same_shapes
from chainrule.ops.indexing.selection import take, take_along_axis, where
from chainrule.ops.losses.common_losses import classes, difference, reduce_loss
from chainrule.ops.reductions import reduction as red
from chainrule.ops.reductions.distances import cosine_similarity, pairwise_distance
from chainrule.ops.reductions.scan import cumprod
from chainrule.ops.shapes.shaping import astype, expand_dims, roomy


def _signs(target: Any, x: Any) -> Any:
    """Targets 1 and -1 in the dtype of `x`, so that whole numbers do not widen it."""
    return astype(target, x.dtype) if target.dtype.kind in "biu" else target


def soft_margin_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """log(1 + exp(-target x)), targets 1 and -1, without overflow.

    Shapes: (...), (...) -> () if reduction != "none"; (...), (...) -> (...).

    >>> nn.functional.soft_margin_loss(cr.tensor([0.0, 0.0]), cr.tensor([1, -1]))
    tensor(0.6931472, dtype=float32)
    """
    same_shapes("soft_margin_loss", x, target)
    return reduce_loss(ew.softplus(-_signs(target, x) * x), reduction)


def hinge_embedding_loss(
    x: Any, target: Any, *, margin: float = 1.0, reduction: str = "mean"
) -> Any:
    """x where the target is 1, max(0, margin - x) where it is -1. The target broadcasts.

    Shapes: (...), (...) -> () if reduction != "none"; (...), (...) -> (...).

    >>> nn.functional.hinge_embedding_loss(cr.tensor([0.5, 0.5]), cr.tensor([1, -1]))
    tensor(0.5, dtype=float32)
    """
    loss = where(target == -1, 0, x) + where(target == 1, 0, ew.at_least(margin - x, 0))
    return reduce_loss(loss, reduction)


def margin_ranking_loss(
    a: Any, b: Any, target: Any, *, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """max(0, margin - target (a - b)): the target is 1 where `a` is to rank higher, else -1.

    Shapes: (...), (...), (...) -> () if reduction != "none"; (...), (...), (...) -> (...).

    >>> nn.functional.margin_ranking_loss(cr.tensor([1.0]), cr.tensor([3.0]), cr.tensor([1]))
    tensor(2., dtype=float32)
    """
    same_shapes("margin_ranking_loss", a, b)
    return reduce_loss(ew.at_least(margin - _signs(target, a) * difference(a, b), 0), reduction)


@roomy
def multi_margin_loss(
    x: Any,
    target: Any,
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Any:
    """max(0, margin - x[target] + x[i])**p over the other classes i of (B, C) or (C,), over C.

    Shapes: (*s, C), (*s), weight (C) -> () if reduction != "none";
        (*s, C), (*s), weight (C) -> (*s).

    >>> nn.functional.multi_margin_loss(cr.tensor([[0.0, 0.5]]), cr.tensor([0]))
    tensor(0.75, dtype=float32)
    """
    if x.ndim == 0 or tuple(target.shape) != tuple(x.shape[:-1]):
        raise ShapeError(
            "multi_margin_loss: x has an axis of classes last, and target the others: not "
            f"{tuple(x.shape)} and {tuple(target.shape)}"
        )
    index = expand_dims(target, -1)
    index = classes("multi_margin_loss", index, x.shape[-1])
    gaps = ew.at_least(margin - take_along_axis(x, index, axis=-1) + x, 0)
    gaps = gaps if p == 1 else gaps**p
    if weight is not None:
        gaps = gaps * expand_dims(take(weight, target, axis=0), -1)
    return reduce_loss(
        red.sum(where(index == np.arange(x.shape[-1]), 0, gaps), axis=-1) / x.shape[-1], reduction
    )


@roomy
def multilabel_margin_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """max(0, 1 - x[j] + x[i]) over each class j of the target and each i that is none, over C.

    Shapes: (*s, C), (*s, C) -> () if reduction != "none"; (*s, C), (*s, C) -> (*s).
    The target of an example is its classes in any order, and behind them -1.

    >>> nn.functional.multilabel_margin_loss(cr.tensor([[0.1, 0.2, 0.4]]), cr.tensor([[2, -1, 0]]))
    tensor(0.5, dtype=float32)
    """
    if x.ndim == 0 or tuple(target.shape) != tuple(x.shape) or target.dtype.kind not in "iu":
        raise ShapeError(
            "multilabel_margin_loss: the target is integers of the shape of x, not "
            f"{target.dtype} {tuple(target.shape)} for {tuple(x.shape)}"
        )
    C = x.shape[-1]
    named = cumprod(astype(target >= 0, np.int64), axis=-1) == 1
    index = classes("multilabel_margin_loss", where(named, target, 0), C)
    pairs = ew.logical_and(expand_dims(named, -1), expand_dims(index, -1) == np.arange(C))
    wrong = ew.logical_not(red.any(pairs, axis=-2))
    gaps = expand_dims(x, -2) + (1 - expand_dims(take_along_axis(x, index, axis=-1), -1))
    counted = ew.logical_and(expand_dims(named, -1), expand_dims(wrong, -2))
    loss = where(counted, ew.at_least(gaps, 0), 0)
    return reduce_loss(red.sum(loss, axis=(-2, -1)) / C, reduction)


@roomy
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    margin: float = 1.0,
    ord: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """max(0, margin + |anchor - positive| - |anchor - negative|) along the last axis.

    Shapes: (..., d), (..., d), (..., d) -> () if reduction != "none";
        (..., d), (..., d), (..., d) -> (...).
    With `swap` the negative's distance is the smaller of those to anchor and positive. Balntas et
    al. 2016, doi:10.5244/C.30.119.

    >>> a, p, n = cr.zeros((1, 2)), cr.tensor([[3.0, 4.0]]), cr.tensor([[0.0, 1.0]])
    >>> nn.functional.triplet_margin_loss(a, p, n)
    tensor(4.9999995, dtype=float32)
    """

    def distance(a: Any, b: Any) -> Any:
        return pairwise_distance(a, b, ord=ord, eps=eps)

    return _of_triplets(distance, anchor, positive, negative, margin, swap, reduction)


@roomy
def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with any distance, by default `pairwise_distance`.

    Shapes: (..., d), (..., d), (..., d) -> () if reduction != "none";
        (..., d), (..., d), (..., d) -> (...).

    >>> a, p, n = cr.zeros((1, 2)), cr.ones((1, 2)), cr.ones((1, 2)) * 2
    >>> nn.functional.triplet_margin_with_distance_loss(a, p, n)
    tensor(0., dtype=float32)
    """
    distance = distance_function or pairwise_distance
    return _of_triplets(distance, anchor, positive, negative, margin, swap, reduction)


def _of_triplets(
    distance: Callable[[Any, Any], Any],
    anchor: Any, positive: Any, negative: Any, margin: float, swap: bool, reduction: str,
) -> Any:  # fmt: skip
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ew.minimum(far, distance(positive, negative))
    return reduce_loss(ew.at_least(margin + near - far, 0), reduction)


@roomy
def cosine_embedding_loss(
    a: Any, b: Any, target: Any, *, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1.

    Shapes: (..., d), (..., d), (...) -> () if reduction != "none";
        (..., d), (..., d), (...) -> (...).
    Vectors along the last axis.

    >>> x, y = cr.ones((1, 2)), cr.tensor([[1.0, 0.0]])
    >>> nn.functional.cosine_embedding_loss(x, y, cr.tensor([1]))
    tensor(0.29289323, dtype=float32)
    """
    cosine = cosine_similarity(a, b, axis=-1)
    target = astype(target, cosine.dtype)
    loss = where(target == 1, 1 - cosine, 0)
    return reduce_loss(loss + where(target == -1, ew.at_least(cosine - margin, 0), 0), reduction)
