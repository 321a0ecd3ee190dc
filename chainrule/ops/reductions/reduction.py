"""Reductions: many elements to one, over one axis, several, or all.

`axis` is an int, a tuple of ints, or None for all; with `keepdims` the reduced axes stay with size
1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.dtypes import INEXACT, check_real, finfo, rounded_once
from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec, derived
from chainrule.errors import ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.accident import warn_if_paired
from chainrule.ops.complex import complex_abs, squared_size
from chainrule.ops.families import Linear, accumulator, repeated
from chainrule.ops.indexing.selection import where
from chainrule.ops.shapes.shaping import (
    Axis,
    Shape,
    Slice,
    astype,
    concat,
    normalize_axes,
    normalize_axis,
    reshape,
    roomy,
)


def _reduced_shape(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    if keepdims:
        return tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def reduced_axes(axis: Axis, ndim: int) -> Shape:
    """The axes that a reduction goes over. As in NumPy, a number is also reduced along axis 0 or
    -1, as if along none."""
    if ndim == 0 and isinstance(axis, int) and axis in (0, -1):
        return ()
    return normalize_axes(axis, ndim)


def _total(x: Array, axes: Shape, keepdims: bool) -> Any:
    """NumPy's sum, in the dtype of `x`."""
    dtype = x.dtype
    total = np.add.reduce(x, axis=axes, dtype=accumulator(dtype), keepdims=keepdims)
    return total if total.dtype is dtype else total.astype(dtype, copy=False)


def floating(x: Any) -> Any:
    """`x`, as float64 if it holds integers or bools."""
    return x if x.dtype.kind in INEXACT else astype(x, np.float64)


class Spread(Linear):
    """What a reduction over `axes` left, repeated to the `shape` that it came from."""

    axes: Shape
    shape: Shape
    kept: Shape = derived()
    """The shape with 1 for each of the axes."""

    def prepare(self) -> None:
        """Work it out."""
        kept = _reduced_shape(self.shape, self.axes, keepdims=True)
        object.__setattr__(self, "kept", kept)

    @property
    def name(self) -> str:
        """`broadcast_to`."""
        return "broadcast_to"

    def eval(self, *xs: Any) -> Any:
        """As `BroadcastTo`, after putting the axes back with size 1."""
        return repeated(xs[0].reshape(self.kept), self.shape)

    def spec(self, *xs: Any) -> Spec:
        """`shape`, and the input's dtype."""
        return Spec(self.shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The reduction."""
        keepdims = len(xs[0].shape) == len(self.shape)
        return (apply(Sum(self.axes, keepdims), g),)


def spread(g: Any, axes: Shape, shape: Shape) -> Any:
    """What a reduction over `axes` left, repeated to the `shape` that it came from."""
    return apply(Spread(axes, shape), g)


class Sum(Linear):
    """The sum over `axes`."""

    axes: Shape
    keepdims: bool

    @property
    def name(self) -> str:
        """`sum`."""
        return "sum"

    def eval(self, *xs: Any) -> Any:
        """NumPy's pairwise sum, in the input's dtype (float16 and bfloat16: added in float32)."""
        (x,) = xs
        return _total(x, self.axes, self.keepdims)

    def spec(self, *xs: Any) -> Spec:
        """The shape without `axes`."""
        return Spec(_reduced_shape(xs[0].shape, self.axes, self.keepdims), xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` for every element."""
        return (spread(g, self.axes, xs[0].shape),)


def _check_elements(what: str, shape: Shape, axes: Shape) -> None:
    if 0 in [shape[a] for a in axes]:
        raise ShapeError(f"{what} over an axis without elements: {shape}")


class Extremum(Op):
    """The largest (or smallest) element over `axes`. Those that tie share the gradient equally."""

    largest: bool
    axes: Shape
    keepdims: bool

    @property
    def name(self) -> str:
        """`max` or `min`."""
        return "max" if self.largest else "min"

    def eval(self, *xs: Any) -> Any:
        """The extremum; NaN if there is one."""
        check_real(self.name, xs[0])
        fn = np.maximum if self.largest else np.minimum
        return fn.reduce(xs[0], axis=self.axes, keepdims=self.keepdims)

    def spec(self, *xs: Any) -> Spec:
        """The shape without `axes`, which must not be empty."""
        check_real(self.name, xs[0])
        _check_elements(self.name, xs[0].shape, self.axes)
        return Spec(_reduced_shape(xs[0].shape, self.axes, self.keepdims), xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """Output and input."""
        return (0, 1)

    def share(self, y: Any, x: Any) -> Any:
        """1 / (number of ties) where `x` is the extremum, 0 elsewhere; in a dtype that counts far
        enough."""
        tied = astype(x == spread(y, self.axes, x.shape), accumulator(x.dtype))
        return tied / apply(Sum(self.axes, True), tied)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` to the extremum."""
        bar = spread(g, self.axes, xs[0].shape) * self.share(y, xs[0])
        return (astype(bar, xs[0].dtype),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangent of the extremum."""
        total = apply(Sum(self.axes, self.keepdims), ts[0] * self.share(y, xs[0]))
        return astype(total, xs[0].dtype)


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
        return Spec(_reduced_shape(xs[0].shape, self.axes, keepdims=True), xs[0].dtype)

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
        return np.asarray(np.log(_total(np.exp(xs[0]), self.axes, self.keepdims)))

    def spec(self, *xs: Any) -> Spec:
        """The shape without `axes`."""
        return Spec(_reduced_shape(xs[0].shape, self.axes, self.keepdims), xs[0].dtype)

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
        y = np.sqrt(_total(x * x, self.axes, True))
        small = math.sqrt(finfo(x.dtype).smallest_normal)
        if not np.logical_and.reduce((y > small) & (y < np.inf), axis=None):
            top = np.maximum.reduce(np.abs(x), axis=self.axes, keepdims=True, initial=0)
            top = np.where(np.isfinite(top) & (top > 0), top, np.ones((), x.dtype))
            s = x / top
            y = top * np.sqrt(_total(s * s, self.axes, True))
        return y if self.keepdims else y.reshape(_reduced_shape(x.shape, self.axes, keepdims=False))

    def spec(self, *xs: Any) -> Spec:
        """The shape without `axes`."""
        return Spec(_reduced_shape(xs[0].shape, self.axes, self.keepdims), xs[0].dtype)

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


class Found(Op):
    """A reduction without a derivative: `any`, `all`, `argmax`, `argmin`, `count_nonzero`."""

    what: str
    axes: Shape
    keepdims: bool

    @property
    def name(self) -> str:
        """What is found."""
        return self.what

    def eval(self, *xs: Any) -> Any:
        """NumPy's function of that name."""
        axis: Any = self.axes
        if self.what.startswith("arg"):
            check_real(self.what, xs[0])
            axis = self.axes[0]
        return np.asarray(getattr(np, self.what)(xs[0], axis=axis, keepdims=self.keepdims))

    def spec(self, *xs: Any) -> Spec:
        """The shape without `axes`, which must not be empty for a place; bool or int64."""
        if self.what.startswith("arg"):
            check_real(self.what, xs[0])
            _check_elements(self.what, xs[0].shape, self.axes)
        dtype = np.dtype(bool if self.what in ("any", "all") else np.int64)
        return Spec(_reduced_shape(xs[0].shape, self.axes, self.keepdims), dtype)

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


def sum(x: Any, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum of elements over `axis`. Bools and small integers are summed as int64 or uint64.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.sum(cr.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=1)
    tensor([4., 9.], dtype=float32)
    """
    if dtype is None and x.dtype.kind in "biu":
        dtype = np.uint64 if x.dtype.kind == "u" else np.int64
    x = x if dtype is None else astype(x, dtype)
    if axis is None and x.ndim == 2 and x.shape[0] == x.shape[1] > 1:
        warn_if_paired(x)
    return apply(Sum(reduced_axes(axis, x.ndim), keepdims), x)


def _count(x: Any, axis: Axis) -> int:
    return math.prod([x.shape[a] for a in normalize_axes(axis, x.ndim)])


@roomy  # the sum may be larger than float16 can hold
def mean(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """The arithmetic mean over `axis`; NaN over no elements. Integers give float64.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.mean(cr.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=0)
    tensor([3. , 3.5], dtype=float32)
    """
    return sum(floating(x), axis=axis, keepdims=keepdims) / (_count(x, axis) or math.nan)


def max(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """The largest element over `axis`, NaN if there is one. Ties share the gradient equally.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.max(cr.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=1)
    tensor([3., 5.], dtype=float32)
    """
    return apply(Extremum(True, reduced_axes(axis, x.ndim), keepdims), x)


def min(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """The smallest element over `axis`, NaN if there is one. Ties share the gradient equally.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.min(cr.tensor([3.0, 1.0, 2.0]))
    tensor(1., dtype=float32)
    """
    return apply(Extremum(False, reduced_axes(axis, x.ndim), keepdims), x)


@roomy
def prod(x: Any, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product of elements over `axis`; its derivatives of every order are right at zeros.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).
    Pairs are multiplied, then pairs of pairs: no division by an element ever happens.

    >>> cr.prod(cr.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=0)
    tensor([ 5., 12.], dtype=float32)
    """
    if dtype is None and x.dtype.kind in "biu":
        dtype = np.uint64 if x.dtype.kind == "u" else np.int64
    x = x if dtype is None else astype(x, dtype)
    shape = _reduced_shape(x.shape, reduced_axes(axis, x.ndim), keepdims)
    for a in reduced_axes(axis, x.ndim):
        x = _prod_along(x, a)
    return reshape(x, shape)


def _prod_along(x: Any, axis: int) -> Any:
    lead = ((None, None, None),) * axis
    if x.shape[axis] == 0:
        return apply(Sum((axis,), True), x) + 1
    while (n := x.shape[axis]) > 1:
        half = n // 2
        a = apply(Slice((*lead, (None, half, None))), x)
        b = apply(Slice((*lead, (half, 2 * half, None))), x)
        rest = [apply(Slice((*lead, (2 * half, None, None))), x)] if n % 2 else []
        x = concat([a * b, *rest], axis=axis) if rest else a * b
    return x


@roomy
def var(x: Any, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance over `axis`: the sum of squared deviations divided by (count - correction).

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).
    Of complex numbers the squared absolute deviations, a real number. Where the correction is not
    below the count the sum is divided by 0, as in NumPy: infinity, or NaN if nothing deviates.

    >>> cr.var(cr.tensor([1.0, 3.0])), cr.var(cr.tensor([1.0, 3.0]), correction=1)
    (tensor(1., dtype=float32), tensor(2., dtype=float32))
    """
    far = x - mean(x, axis=axis, keepdims=True)
    return sum(squared_size(far), axis=axis, keepdims=keepdims) / _freedom(x, axis, correction)


def _freedom(x: Any, axis: Axis, correction: float) -> float:
    left = _count(x, axis) - correction
    return left if left > 0 else 0.0


@roomy
def std(x: Any, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The root of the variance over `axis`; its gradient where all elements are equal is 0.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.std(cr.tensor([1.0, 3.0]), correction=1)
    tensor(1.4142135, dtype=float32)
    """
    centered = x - mean(x, axis=axis, keepdims=True)
    length = norm(centered, axis=axis, keepdims=keepdims)
    return length / math.sqrt(_freedom(x, axis, correction))


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
    return y if keepdims else reshape(y, _reduced_shape(x.shape, axes, keepdims=False))


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


def any(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Whether any element over `axis` is nonzero.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.any(cr.tensor([[True, False], [False, False]]), axis=1)
    tensor([ True, False], dtype=bool)
    """
    return apply(Found("any", reduced_axes(axis, x.ndim), keepdims), x)


def all(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Whether all elements over `axis` are nonzero.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.all(cr.tensor([[True, False], [True, True]]), axis=1)
    tensor([False,  True], dtype=bool)
    """
    return apply(Found("all", reduced_axes(axis, x.ndim), keepdims), x)


def count_nonzero(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """How many elements over `axis` are nonzero.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.count_nonzero(cr.tensor([0, 1, 2]))
    tensor(2, dtype=int64)
    """
    return apply(Found("count_nonzero", reduced_axes(axis, x.ndim), keepdims), x)


def argmax(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Index (int64) of the first largest element along `axis`, of the flat array for None.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.argmax(cr.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=1)
    tensor([1, 0], dtype=int64)
    """
    return _arg("argmax", x, axis, keepdims)


def argmin(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Index (int64) of the first smallest element along `axis`, of the flat array for None.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.argmin(cr.tensor([3.0, 1.0, 2.0]))
    tensor(1, dtype=int64)
    """
    return _arg("argmin", x, axis, keepdims)


def _arg(what: str, x: Any, axis: int | None, keepdims: bool) -> Any:
    if axis is not None and (x.ndim or axis not in (0, -1)):
        return apply(Found(what, (normalize_axis(axis, x.ndim),), keepdims), x)
    flat = apply(Found(what, (0,), False), reshape(x, (-1,)))
    return reshape(flat, (1,) * x.ndim) if keepdims else flat
