"""Reductions: many elements to one, over one axis, several, or all.

`axis` is an int, a tuple of ints, or None for all; with `keepdims` the reduced axes stay with size
1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.dtypes import INEXACT, check_real
from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec, derived
from chainrule.errors import ShapeError
from chainrule.ops.accidental_broadcast import warn_if_paired
from chainrule.ops.families import Linear, accumulator, repeated
from chainrule.ops.shapes.joining import concat
from chainrule.ops.shapes.shaping import (
    Axis,
    Shape,
    astype,
    normalize_axes,
    normalize_axis,
    reshape,
    roomy,
)
from chainrule.ops.shapes.slices import Slice


def reduced_shape(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    """`shape` without `axes`, or with sizes of 1 in their places."""
    if keepdims:
        return tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def reduced_axes(axis: Axis, ndim: int) -> Shape:
    """The axes that a reduction goes over. As in NumPy, a number is also reduced along axis 0 or
    -1, as if along none."""
    if ndim == 0 and isinstance(axis, int) and axis in (0, -1):
        return ()
    return normalize_axes(axis, ndim)


def sum_of_array(x: Array, axes: Shape, keepdims: bool) -> Any:
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
        kept = reduced_shape(self.shape, self.axes, keepdims=True)
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
        return sum_of_array(x, self.axes, self.keepdims)

    def spec(self, *xs: Any) -> Spec:
        """The shape without `axes`."""
        return Spec(reduced_shape(xs[0].shape, self.axes, self.keepdims), xs[0].dtype)

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
        return Spec(reduced_shape(xs[0].shape, self.axes, self.keepdims), xs[0].dtype)

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
        return Spec(reduced_shape(xs[0].shape, self.axes, self.keepdims), dtype)

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


def element_count(x: Any, axis: Axis) -> int:
    """How many elements of `x` make one element of the result."""
    return math.prod([x.shape[a] for a in normalize_axes(axis, x.ndim)])


@roomy  # the sum may be larger than float16 can hold
def mean(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """The arithmetic mean over `axis`; NaN over no elements. Integers give float64.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.mean(cr.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=0)
    tensor([3. , 3.5], dtype=float32)
    """
    return sum(floating(x), axis=axis, keepdims=keepdims) / (element_count(x, axis) or math.nan)


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
    shape = reduced_shape(x.shape, reduced_axes(axis, x.ndim), keepdims)
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
