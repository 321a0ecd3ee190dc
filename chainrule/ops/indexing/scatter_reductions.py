"""Scatters that reduce: sums, products, means and extremes of the elements that meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from chainrule.engine.dtypes import INEXACT, REAL, check_real
from chainrule.engine.graph import apply, value_of
from chainrule.engine.op import Need, Op, Spec
from chainrule.errors import (
    ConfigError,
    TraceError,
)
from chainrule.ops.families import accumulator
from chainrule.ops.indexing.scattering import index_put, places_and_source
from chainrule.ops.indexing.selection import (
    Take,
    TakeAdd,
    take,
    where,
)
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import (
    astype,
    flatten,
    reshape,
    roomy,
)

Reduction = Literal["sum", "prod", "mean", "amax", "amin"]


class ScatterExtremum(Op):
    """Of x (size,), and of the elements of a source at flat places, the largest or smallest.

    Those that tie, x among them, share the gradient equally.
    """

    largest: bool
    states_jvp = False

    @property
    def name(self) -> str:
        """`scatter_amax` or `scatter_amin`."""
        return "scatter_amax" if self.largest else "scatter_amin"

    def eval(self, *xs: Any) -> Any:
        """A new array; NaN where there is one."""
        check_real(self.name, *xs)
        x, source, places = xs
        out = x.copy()
        (np.maximum if self.largest else np.minimum).at(out, places, source)
        return out

    def spec(self, *xs: Any) -> Spec:
        """As x."""
        check_real(self.name, *xs)
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...] | None:
        """Everything."""
        return None if i == 2 else (0, 1, 2, 3)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` to those that are the extremum."""
        x, source, places = xs
        wide = accumulator(y.dtype)  # which counts far enough
        own = astype(x == y, wide)
        tied = astype(source == apply(Take(0), y, places), wide)
        count = own + apply(TakeAdd(0, tuple(x.shape)), tied, places)
        share = g / (count + (count == 0))
        bars = share * own, apply(Take(0), share, places) * tied
        return *[astype(bar, y.dtype) for bar in bars], None


def scatter_reduce(
    x: Any,
    axis: int,
    indices: Any,
    source: Any,
    reduce: Reduction,
    *,
    include_self: bool = True,
) -> Any:
    """`x` with the elements of `source` at `indices` along `axis` reduced into it.

    Shapes: (*s), indices (*i) -> (*s) with len(i) == len(s).
    Shapes as in `scatter`. `reduce` is sum, prod, mean, amax or amin of the elements that one index
    names. With `include_self` the element of x at that index is one of them. What no index names
    stays. Extrema that tie share the gradient equally. Derivatives of a product are right at zeros,
    in every order; it takes memory for (elements of x) times (most elements at one index).

    >>> cr.scatter_reduce(cr.zeros(2), 0, cr.tensor([0, 0, 1]), cr.tensor([1.0, 3.0, 2.0]), "amax")
    tensor([3., 2.], dtype=float32)
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise ConfigError(
            f"scatter_reduce: reduce is sum, prod, mean, amax or amin, not {reduce!r}"
        )
    run = roomy(_reduce) if reduce in ("mean", "prod") else _reduce
    return run(x, axis, indices, source, reduce, include_self)


def _reduce(
    x: Any, axis: int, indices: Any, source: Any, reduce: Reduction, include_self: bool
) -> Any:
    """`scatter_reduce` for one name of a reduction, on flat arrays."""
    dtype = x.dtype
    if reduce == "mean" and dtype.kind in "biu":
        x = astype(x, np.int64)  # a sum may be larger than what its mean fits into
    places, source = places_and_source("scatter_reduce", x, axis, indices, source)
    places, source, old = flatten(places), flatten(source), flatten(x)
    size = (math.prod(x.shape),)
    ones = np.ones(places.shape, np.int64)
    count = apply(TakeAdd(0, size), ones, places)
    if not include_self:
        old = where(count == 0, old, _neutral(reduce, x.dtype))
    if reduce in ("amax", "amin"):
        y = apply(ScatterExtremum(reduce == "amax"), old, source, places)
    elif reduce == "prod":
        y = old * _products(source, places, size[0])
    else:
        y = old + apply(TakeAdd(0, size), source, places)
        if reduce == "mean":
            y = _divide(y, count + 1 if include_self else where(count == 0, 1, count))
    return astype(reshape(y, tuple(x.shape)), dtype)


def _divide(y: Any, count: Any) -> Any:
    return y / astype(count, y.dtype) if y.dtype.kind in INEXACT else y // count


def _neutral(reduce: Reduction, dtype: Any) -> Any:
    """What changes nothing when it is reduced with others."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    lowest = reduce == "amax"
    if dtype.kind in REAL:
        return -math.inf if lowest else math.inf
    return int(np.iinfo(dtype).min if lowest else np.iinfo(dtype).max)


def _products(source: Any, places: Any, size: int) -> Any:
    """The product of the elements at each place: laid out as rows, filled up with ones."""
    at = value_of(places)
    if type(at) is Spec:
        raise TraceError("scatter_reduce: 'prod' needs to know its indices; they are traced here")
    order = np.argsort(at, stable=True)
    counts = np.bincount(at, minlength=size)
    rank = np.arange(int(at.size)) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = (size, int(counts.max(initial=0)))
    table = np.ones(rows, source.dtype)
    ordered = take(source, order, axis=0)
    return red.prod(index_put(table, (at[order], rank), ordered), axis=1)
