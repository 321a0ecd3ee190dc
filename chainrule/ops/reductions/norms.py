"""Norms and log-sums: reductions that are computed after their largest element is taken out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.dtypes import finfo, rounded_once
from chainrule.engine.graph import apply
from chainrule.engine.op import Need, Op, Spec
from chainrule.ops import elementwise as ew
from chainrule.ops.complex import complex_abs
from chainrule.ops.indexing.selection import where
from chainrule.ops.reductions.reduction import (
    Sum,
    count_nonzero,
    floating,
    max,
    min,
    reduced_axes,
    reduced_shape,
    spread,
    sum,
    sum_of_array,
)
from chainrule.ops.shapes.shaping import (
    Axis,
    Shape,
    astype,
    normalize_axes,
    reshape,
    roomy,
)


class Shift(Op):
    """The largest element over `axes`, which stay with size 1, where it is finite, and 0 elsewhere:
    what is taken off before exponentials are summed.

    It has no derivative: what is made of x - shift and the shift does not depend on it.
    """

    axes: Shape

    @property
    def name(self) -> str:
        """`shift`."""
        return "shift"

    def eval(self, *xs: Any) -> Any:
        """0 for no elements, too."""
        (x,) = xs
        top = np.maximum.reduce(x, axis=self.axes, keepdims=True, initial=-np.inf)
        fine = np.isfinite(top)
        return top if fine.all() else np.where(fine, top, np.zeros((), x.dtype))

    def spec(self, *xs: Any) -> Spec:
        """The shape with 1 for each of `axes`."""
        return Spec(reduced_shape(xs[0].shape, self.axes, keepdims=True), xs[0].dtype)

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


class LogSumExp(Op):
    """log(sum(exp(x))) over `axes`, for an x from which a `Shift` was taken; -inf, with gradient 0,
    where all are -inf."""

    axes: Shape
    keepdims: bool

    @property
    def name(self) -> str:
        """`logsumexp`."""
        return "logsumexp"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """As it stands: no element is above 0, so that nothing overflows."""
        return np.asarray(np.log(sum_of_array(np.exp(xs[0]), self.axes, self.keepdims)))

    def spec(self, *xs: Any) -> Spec:
        """The shape without `axes`."""
        return Spec(reduced_shape(xs[0].shape, self.axes, self.keepdims), xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """Output and input."""
        return (0, 1)

    def share(self, y: Any, x: Any) -> Any:
        """exp(x - y): the softmax of x, 0 where x is -inf."""
        return ew.exp_diff(x, spread(y, self.axes, x.shape))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` times the softmax."""
        return (spread(g, self.axes, xs[0].shape) * self.share(y, xs[0]),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The mean of the tangent under the softmax."""
        return apply(Sum(self.axes, self.keepdims), ts[0] * self.share(y, xs[0]))


class Norm(Op):
    """The Euclidean length over `axes`, without overflow; its gradient at 0 is 0."""

    axes: Shape
    keepdims: bool

    @property
    def name(self) -> str:
        """`norm`."""
        return "norm"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """The root of the sum of squares, scaled by the largest element where that matters."""
        (x,) = xs
        y = np.sqrt(sum_of_array(x * x, self.axes, True))
        small = math.sqrt(finfo(x.dtype).smallest_normal)
        if not np.logical_and.reduce((y > small) & (y < np.inf), axis=None):
            top = np.maximum.reduce(np.abs(x), axis=self.axes, keepdims=True, initial=0)
            top = np.where(np.isfinite(top) & (top > 0), top, np.ones((), x.dtype))
            s = x / top
            y = top * np.sqrt(sum_of_array(s * s, self.axes, True))
        return y if self.keepdims else y.reshape(reduced_shape(x.shape, self.axes, keepdims=False))

    def spec(self, *xs: Any) -> Spec:
        """The shape without `axes`."""
        return Spec(reduced_shape(xs[0].shape, self.axes, self.keepdims), xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """Output and input."""
        return (0, 1)

    def direction(self, y: Any, x: Any) -> Any:
        """x / y, and 0 where y is 0."""
        return x / spread(y + (y == 0), self.axes, x.shape)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` along the direction of x."""
        return (spread(g, self.axes, xs[0].shape) * self.direction(y, xs[0]),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The part of the tangent along x."""
        return apply(Sum(self.axes, self.keepdims), ts[0] * self.direction(y, xs[0]))


@roomy
def logsumexp(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) over `axis` without overflow; -inf, with gradient 0, where all are -inf.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.logsumexp(cr.tensor([1000.0, 1000.0]))
    tensor(1000.6932, dtype=float32)
    """
    axes = reduced_axes(axis, x.ndim)
    _, total, shift = shift_by_max(floating(x), axis=axes)
    y = total + shift
    return y if keepdims else reshape(y, reduced_shape(x.shape, axes, keepdims=False))


def shift_by_max(x: Any, *, axis: Axis = None) -> tuple[Any, Any, Any]:
    """x less its largest element over `axis`, where that is finite; the log-sum-exp of that; and
    what was taken off.

    Shapes: (*s, axis: n) -> (*s, axis: n), (*s, axis: 1), (*s, axis: 1).
    Differences of the first two are exact to rounding however large x is; those of x and its own
    log-sum-exp lose all digits that this has before the point.
    """
    axes = normalize_axes(axis, x.ndim)
    shift = apply(Shift(axes), x)
    z = x - shift
    return z, apply(LogSumExp(axes, True), z), shift


@roomy
def norm(x: Any, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Any:
    """The vector norm of order `ord` (any float, inf and -inf) over `axis`; norm'(0) = 0.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.norm(cr.tensor([3.0, 4.0]))
    tensor(5., dtype=float32)
    """
    axis = normalize_axes(axis, x.ndim)
    if ord == 2:
        return apply(Norm(axis, keepdims), floating(complex_abs(x) if x.dtype.kind == "c" else x))
    size = complex_abs(floating(x))
    if ord == math.inf and 0 in [x.shape[a] for a in axis]:
        return sum(size, axis=axis, keepdims=keepdims)  # 0: no element is above it
    if ord == math.inf:
        return max(size, axis=axis, keepdims=keepdims)
    if ord == -math.inf:
        return min(size, axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return astype(count_nonzero(x, axis=axis, keepdims=keepdims), size.dtype)
    if ord < 0:
        return sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)
    return _power(sum(_power(size, ord), axis=axis, keepdims=keepdims), 1 / ord)


def _power(x: Any, p: float) -> Any:
    """x**p for x >= 0 and p > 0, with derivative 0 at 0."""
    zero = x == 0
    return where(zero, 0, where(zero, 1, x) ** p)
