"""Order statistics that leave NaN out, and the most frequent element."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing import sorting
from chainrule.ops.indexing.selection import take_along_axis, where
from chainrule.ops.indexing.sorting import Interpolation
from chainrule.ops.reductions import reduction as red
from chainrule.ops.reductions.scan import cummax
from chainrule.ops.shapes.joining import concat
from chainrule.ops.shapes.shaping import astype, moveaxis, normalize_axis, squeeze


def nanquantile(
    x: Any,
    q: Any,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    interpolation: Interpolation = "linear",
) -> Any:
    """The `q`-th quantiles along `axis` of what is not NaN; NaN where there is nothing else.

    Shapes: (*s, axis: n), () -> (*s, axis: 1) if keepdims;
        (*s, axis: n), () -> (*s);
        (*s, axis: n), (k) -> (k, *t) if keepdims with prod(t) == prod(s);
        (*s, axis: n), (k) -> (k, *s).
    Otherwise as `quantile`.

    >>> cr.nanquantile(cr.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2., dtype=float32)
    """

    def at(ordered: Any, fractions: Any) -> Any:
        count = red.sum(astype(ordered == ordered, np.int64), axis=-1, keepdims=True)
        rank = fractions * astype(ew.at_least(count - 1, 0), np.float64)

        def pick(places: Any) -> Any:
            return take_along_axis(ordered, places, axis=-1)

        return sorting.between(rank, ordered.dtype, interpolation, pick)

    return sorting.quantiles("nanquantile", x, q, axis, keepdims, interpolation, at)


def nanmedian(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The median along `axis` of what is not NaN: of two in the middle, the lower.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).
    NaN where there is nothing else. Floats only.

    >>> cr.nanmedian(cr.tensor([1.0, float("nan"), 3.0]))
    tensor(1., dtype=float32)
    """
    return nanquantile(x, 0.5, axis=axis, keepdims=keepdims, interpolation="lower")


def mode(x: Any, axis: int = -1, *, keepdims: bool = False) -> tuple[Any, Any]:
    """(values, indices) of the most frequent elements along `axis`, the smallest of several.

    Shapes: (*s, axis: n) -> (*s, axis: 1), (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s), (*s).
    The index is that of the last of the equal elements, which alone gets the gradient.

    >>> cr.mode(cr.tensor([1.0, 2.0, 2.0]))
    (tensor(2., dtype=float32), tensor(2, dtype=int64))
    """
    place = normalize_axis(axis, x.ndim)
    if x.shape[place] == 0:
        raise ShapeError(f"mode: there are no elements along axis {axis} of {tuple(x.shape)}")
    moved = moveaxis(x, place, -1)
    order = sorting.argsort(moved)
    ordered = take_along_axis(moved, order)
    new = ordered[..., 1:] != ordered[..., :-1]
    new = concat([np.ones((*moved.shape[:-1], 1), bool), new], axis=-1)
    at = np.arange(moved.shape[-1], dtype=np.int64)
    start, _ = cummax(where(new, at, 0), axis=-1)
    best = red.argmax(at - start, axis=-1, keepdims=True)
    index = moveaxis(take_along_axis(order, best), -1, place)
    value = take_along_axis(x, index, axis=place)
    return (value, index) if keepdims else (squeeze(value, place), squeeze(index, place))
