"""Sorting, order statistics, searching in sorted arrays.

Each is a choice of elements: the gradient flows to the elements that were chosen. Of equal ones
those come first that stand first (the sort is stable), also in descending order. NaN counts as the
largest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from chainrule.engine.dtypes import REAL, single
from chainrule.engine.graph import Variable, apply
from chainrule.engine.op import Op, Spec
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.families import strong_mul
from chainrule.ops.indexing.selection import take, take_along_axis, where
from chainrule.ops.shapes.shaping import astype, flatten, moveaxis, normalize_axis, reshape, squeeze
from chainrule.ops.shapes.slices import Slice

Interpolation = Literal["linear", "lower", "higher", "midpoint", "nearest"]
Side = Literal["left", "right"]


class Order(Op):
    """The indices (int64) that sort along `axis`, which is counted from the end. Stable."""

    axis: int
    descending: bool
    leading = True

    @property
    def name(self) -> str:
        """`argsort`."""
        return "argsort"

    def eval(self, *xs: Any) -> Any:
        """NumPy's stable sort; descending, that of the reversed array, reversed. Of float16 and
        bfloat16, whose NaNs have no order of their own, in float32."""
        x = single(xs[0])
        if not self.descending:
            return np.argsort(x, axis=self.axis, stable=True)
        turned: Any = np.argsort(np.flip(x, self.axis), axis=self.axis, stable=True)
        return np.flip(x.shape[self.axis] - 1 - turned, self.axis)

    def spec(self, *xs: Any) -> Spec:
        """The input's shape, int64."""
        return Spec(xs[0].shape, np.dtype(np.int64))

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


class SearchSorted(Op):
    """Where each element of the second array would stand in the first, which is sorted."""

    side: Side

    @property
    def name(self) -> str:
        """`searchsorted`."""
        return "searchsorted"

    def eval(self, *xs: Any) -> Any:
        """Indices, int64."""
        find: Any = np.searchsorted
        return np.asarray(find(single(xs[0]), single(xs[1]), side=self.side))

    def spec(self, *xs: Any) -> Spec:
        """The second array's shape, int64."""
        return Spec(xs[1].shape, np.dtype(np.int64))

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


def argsort(x: Any, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
    """The indices (int64, shape of `x`) that sort `x` along `axis`.

    Shapes: (*s) -> (*s).
    Always stable: equal elements keep their order, also where `stable` does not ask for it.

    >>> cr.argsort(cr.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0], dtype=int64)
    """
    del stable
    return apply(Order(normalize_axis(axis, x.ndim) - x.ndim, descending), x)


def sort(x: Any, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
    """`x` sorted along `axis`; same shape and dtype. Each gradient goes where its element was.

    Shapes: (*s) -> (*s).

    >>> cr.sort(cr.tensor([3.0, 1.0, 2.0]), descending=True)
    tensor([3., 2., 1.], dtype=float32)
    """
    return take_along_axis(x, argsort(x, axis=axis, descending=descending), axis=axis)


def topk(x: Any, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Any, Any]:
    """(values, indices) of the `k` largest (or smallest) elements along `axis`, in order.

    Shapes: (*s, axis: n) -> (*s, axis: k), (*s, axis: k).
    Of equal elements the first count, and get the gradient. Raises where the axis has less than k.

    >>> cr.topk(cr.tensor([3.0, 1.0, 2.0]), 2)
    (tensor([3., 2.], dtype=float32), tensor([0, 2], dtype=int64))
    """
    axis = normalize_axis(axis, x.ndim)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(f"topk: axis {axis} of {tuple(x.shape)} does not have {k} elements")
    index = _cut(argsort(x, axis=axis, descending=largest), axis, 0, k)
    return take_along_axis(x, index, axis=axis), index


def kthvalue(x: Any, k: int, axis: int = -1, *, keepdims: bool = False) -> tuple[Any, Any]:
    """(values, indices) of the k-th smallest element along `axis`, k counted from 1.

    Shapes: (*s, axis: n) -> (*s, axis: 1), (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s), (*s).
    Of equal elements the one that stands there in stable order gets the gradient.

    >>> cr.kthvalue(cr.tensor([3.0, 1.0, 2.0]), 2)
    (tensor(2., dtype=float32), tensor(2, dtype=int64))
    """
    axis = normalize_axis(axis, x.ndim)
    if not 1 <= k <= x.shape[axis]:
        raise ShapeError(
            f"kthvalue: k counts from 1 to the size of axis {axis} of {tuple(x.shape)}, not {k}"
        )
    index = _cut(argsort(x, axis=axis), axis, k - 1, k)
    value = take_along_axis(x, index, axis=axis)
    return (value, index) if keepdims else (squeeze(value, axis), squeeze(index, axis))


def _cut(x: Any, axis: int, start: int, stop: int) -> Any:
    return apply(Slice((*[(None, None, None)] * axis, (start, stop, None))), x)


def quantile(
    x: Any,
    q: Any,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    interpolation: Interpolation = "linear",
) -> Any:
    """The `q`-th quantiles of `x` along `axis` (of the flat array for None), q in [0, 1].

    Shapes: (*s, axis: n), () -> (*s, axis: 1) if keepdims;
        (*s, axis: n), () -> (*s);
        (*s, axis: n), (k) -> (k, *t) if keepdims with prod(t) == prod(s);
        (*s, axis: n), (k) -> (k, *s).
    `q` is a number or has one axis, which is then the first of the result. The quantile stands at
    rank q (n - 1) among the n sorted elements. Between two of them it is "linear" (their mean by
    distance), the "lower", the "higher", their "midpoint" or the "nearest" (the even rank of two
    equally near). NaN where there is a NaN. Floats only, same dtype out. The gradient flows to the
    elements used, by their weights.

    >>> cr.quantile(cr.tensor([1.0, 2.0, 3.0, 4.0]), 0.5)
    tensor(2.5, dtype=float32)
    """

    def at(ordered: Any, fractions: Any) -> Any:
        return _at_ranks(ordered, fractions, interpolation)

    return quantiles("quantile", x, q, axis, keepdims, interpolation, at)


def quantiles(
    what: str,
    x: Any,
    q: Any,
    axis: int | None,
    keepdims: bool,
    interpolation: Interpolation,
    at: Callable[[Any, Any], Any],
) -> Any:
    """Quantiles of some kind: `at` gives those at fractions (k) of a sorted last axis."""
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ConfigError(
            f"{what}: interpolation is linear, lower, higher, midpoint or nearest, "
            f"not {interpolation!r}"
        )
    if x.dtype.kind not in REAL:
        raise DtypeError(f"{what}: needs real floats, not {x.dtype}; use astype first")
    fractions = _fractions(what, q)
    moved = flatten(x) if axis is None else moveaxis(x, axis, -1)
    if moved.shape[-1] == 0:
        raise ShapeError(f"{what}: there are no elements along axis {axis} of {tuple(x.shape)}")
    y = moveaxis(at(sort(moved), fractions), -1, 0)
    ones = range(x.ndim) if axis is None else (normalize_axis(axis, x.ndim),)
    kept = [1 if i in ones else n for i, n in enumerate(x.shape)]
    return reshape(y, (*_q_shape(q), *(kept if keepdims else y.shape[1:])))


def _q_shape(q: Any) -> tuple[int, ...]:
    """The axes that the quantiles `q` (a number, or an array with one axis) give a result."""
    return tuple(np.shape(q) if not hasattr(q, "shape") else q.shape)


def _fractions(what: str, q: Any) -> Any:
    """The quantiles as one axis, checked; in float64, which counts further than float32."""
    fractions = q if hasattr(q, "dtype") else np.asarray(q, np.float64)
    if fractions.ndim > 1:
        raise ShapeError(f"{what}: q is a number or has one axis, not {tuple(fractions.shape)}")
    value = fractions.value if isinstance(fractions, Variable) else fractions
    if type(value) is not Spec and not np.all((value >= 0) & (value <= 1)):
        raise ConfigError(f"{what}: q lies between 0 and 1, not {value.tolist()}")
    return reshape(astype(fractions, np.float64), (-1,))


def _at_ranks(ordered: Any, q: Any, interpolation: Interpolation) -> Any:
    """Elements at the fractions `q` of the sorted last axis: (..., n), (k,) -> (..., k)."""
    y = between(
        q * (ordered.shape[-1] - 1),
        ordered.dtype,
        interpolation,
        lambda places: take(ordered, places, axis=-1),
    )
    last = _cut(ordered, ordered.ndim - 1, -1, ordered.shape[-1])
    return where(ew.isnan(last), last, y)  # NaNs were sorted to the end


def between(rank: Any, dtype: Any, interpolation: Interpolation, pick: Callable[[Any], Any]) -> Any:
    """What stands at fractional ranks, made of the elements that `pick` gives for whole ones."""
    if interpolation == "nearest":
        rank = ew.round(rank)
    low, high = ew.floor(rank), ew.ceil(rank)
    a, b = pick(astype(low, np.int64)), pick(astype(high, np.int64))
    if interpolation in ("lower", "nearest"):
        return a
    if interpolation == "higher":
        return b
    share = rank - low if interpolation == "linear" else 0.5 * (high - low)
    share = astype(share, dtype)
    return strong_mul(1 - share, a) + strong_mul(share, b)  # 0 times infinity is 0 here


def median(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The median along `axis` (of the flat array for None): of two in the middle, the lower.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).
    That is PyTorch's convention; NumPy's, their mean, is `quantile(x, 0.5)`. NaN where there is a
    NaN. Floats only. The gradient goes to the one element that was chosen.

    >>> cr.median(cr.tensor([1.0, 5.0, 2.0, 3.0]))
    tensor(2., dtype=float32)
    """
    return quantile(x, 0.5, axis=axis, keepdims=keepdims, interpolation="lower")


def searchsorted(x1: Any, x2: Any, *, side: Side = "left", sorter: Any = None) -> Any:
    """Where each element of `x2` would be inserted into `x1`, which is sorted: int64, shape of x2.

    Shapes: (n), (*s) -> (*s).
    `x1` has one axis. "left" is before equal elements, "right" behind them. `sorter` are indices
    that sort x1 (as `argsort` gives them). `x2` may be a number. No gradient.

    >>> cr.searchsorted(cr.tensor([1.0, 2.0, 3.0]), cr.tensor([2.0, 2.5]))
    tensor([1, 2], dtype=int64)
    """
    if side not in ("left", "right"):
        raise ConfigError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted x1 has one axis, not {tuple(x1.shape)}")
    return apply(SearchSorted(side), x1 if sorter is None else take(x1, sorter, axis=0), x2)
