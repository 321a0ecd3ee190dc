"""Ops that move elements without computing on them. Each is linear and states its transpose."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from operator import index
from typing import Any, cast

import numpy as np

from chainrule.engine.arrays import admit_dtype
from chainrule.engine.dtypes import NARROW
from chainrule.engine.graph import apply
from chainrule.engine.op import Need, Spec
from chainrule.errors import DtypeError, ShapeError, describe
from chainrule.ops.families import Linear, broadcast_to, sum_to

Shape = tuple[int, ...]
Axis = int | tuple[int, ...] | None

__all__ = ["broadcast_to", "sum_to"]


def normalize_axis(axis: int, ndim: int) -> int:
    """`axis` counted from the front. Raises `ShapeError` if an array of `ndim` axes has no such
    axis.

    >>> normalize_axis(-1, 3)
    2
    """
    if type(axis) is not int:
        axis = _axis_number(axis)
    if not -ndim <= axis < ndim:
        raise ShapeError(f"axis {axis} does not exist: the array has {ndim} axes")
    return axis % ndim


def _axis_number(axis: Any) -> int:
    """An axis that is no plain integer as one: neither True nor a tensor is meant as an axis."""
    hint = ""
    if isinstance(axis, bool | np.bool_):
        hint = "; write a flag of PyTorch's by its name"
    elif hasattr(axis, "dtype") and not isinstance(axis, np.generic):
        hint = "; of two arrays there are maximum and minimum"
    else:
        try:
            return index(cast(Any, axis))
        except TypeError:
            pass
    raise DtypeError(f"an axis is an integer (several are a tuple), not {describe(axis)}{hint}")


def normalize_axes(axis: Axis, ndim: int) -> Shape:
    """All axes for None, a tuple of axes counted from the front otherwise; each at most once."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, tuple):
        return (normalize_axis(axis, ndim),)
    out = tuple([normalize_axis(a, ndim) for a in axis])
    if len(set(out)) < len(out):
        raise ShapeError(f"axis {axis} names an axis twice")
    return out


class Reshape(Linear):
    """The same elements in row-major order under another shape."""

    shape: Shape

    @property
    def name(self) -> str:
        """`reshape`."""
        return "reshape"

    def eval(self, *xs: Any) -> Any:
        """A view where possible."""
        return xs[0].reshape(self.shape)

    def spec(self, *xs: Any) -> Spec:
        """The shape, with -1 worked out."""
        return Spec(_fill(self.shape, xs[0].shape), xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The shape that it was."""
        return (reshape(g, xs[0].shape),)


def _fill(shape: Shape, old: Shape) -> Shape:
    size, known = math.prod(old), math.prod(shape)
    if size == known and min(shape, default=0) >= 0:
        return shape
    known = -known  # of the others, where one is -1
    if shape.count(-1) != 1 or known <= 0 or size % known or min(shape) < -1:
        raise ShapeError(f"cannot reshape {old} ({size} elements) to {shape}")
    return tuple([size // known if n == -1 else n for n in shape])


def reshape(x: Any, shape: int | Sequence[int], *, copy: bool | None = None) -> Any:
    """The elements of `x` in row-major order under `shape`, in which one size may be -1.

    Shapes: (*s) -> (*t) with prod(t) == prod(s).

    >>> import chainrule as cr
    >>> cr.reshape(cr.arange(6), (2, -1)).shape
    (2, 3)
    """
    del copy  # values are never changed in place, so a view and a copy are the same
    new = (shape,) if isinstance(shape, int) else tuple([int(n) for n in shape])
    return apply(Reshape(_fill(new, x.shape)), x)


class Permute(Linear):
    """Axes in another order: axis i of the result is axis `axes[i]` of the input."""

    axes: Shape

    @property
    def name(self) -> str:
        """`permute_dims`."""
        return "permute_dims"

    def eval(self, *xs: Any) -> Any:
        """A view."""
        return xs[0].transpose(self.axes)

    def spec(self, *xs: Any) -> Spec:
        """The sizes in their new order."""
        return Spec(tuple([xs[0].shape[a] for a in self.axes]), xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The inverse permutation."""
        return (permute_dims(g, tuple([self.axes.index(i) for i in range(len(self.axes))])),)


def permute_dims(x: Any, axes: Sequence[int]) -> Any:
    """`x` with its axes reordered: axis i of the result is axis `axes[i]` of `x`.

    Shapes: (*s) -> (*[s[a] for a in axes]).

    >>> cr.permute_dims(cr.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    order = normalize_axes(tuple(axes), x.ndim)
    if len(order) != x.ndim:
        raise ShapeError(
            f"permute_dims: axes {tuple(axes)} do not name all {x.ndim} axes of {x.shape}"
        )
    return apply(Permute(order), x)


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """`x` with two axes exchanged.

    Shapes: (*s, axis1: m, axis2: n) -> (*s, axis1: n, axis2: m).

    >>> cr.swapaxes(cr.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    i, j = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    axes = list(range(x.ndim))
    axes[i], axes[j] = j, i
    return apply(Permute(tuple(axes)), x)


def matrix_transpose(x: Any) -> Any:
    """`x` with its last two axes exchanged.

    Shapes: (..., m, n) -> (..., n, m).

    >>> cr.matrix_transpose(cr.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose needs at least 2 axes, not shape {x.shape}")
    return swapaxes(x, -2, -1)


def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Any:
    """`x` with the axes `source` moved to the places `destination`, the others in their order.

    Shapes: (*s, source: n) -> (*s, destination: n).

    >>> cr.moveaxis(cr.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    src, dst = normalize_axes(source, x.ndim), normalize_axes(destination, x.ndim)
    if len(src) != len(dst):
        raise ShapeError(f"moveaxis: {len(src)} axes cannot go to {len(dst)} places")
    axes = [i for i in range(x.ndim) if i not in src]
    for place, axis in sorted(zip(dst, src, strict=True)):
        axes.insert(place, axis)
    return apply(Permute(tuple(axes)), x)


def expand_dims(x: Any, axis: int | tuple[int, ...] = 0) -> Any:
    """`x` with an axis of size 1 at place `axis` of the result's shape.

    Shapes: (*s) -> (*s, axis: 1).

    >>> cr.expand_dims(cr.ones((2, 3)), axis=1).shape
    (2, 1, 3)
    """
    axes = axis if isinstance(axis, tuple) else (axis,)
    shape = list(x.shape)
    for place in sorted(normalize_axes(axes, len(shape) + len(axes))):
        shape.insert(place, 1)
    return apply(Reshape(tuple(shape)), x)


def squeeze(x: Any, axis: int | tuple[int, ...]) -> Any:
    """`x` without the axes `axis`, which must have size 1.

    Shapes: (*s, axis: 1) -> (*s).

    >>> cr.squeeze(cr.ones((2, 1, 3)), axis=1).shape
    (2, 3)
    """
    if x.ndim == 0 and axis in (0, -1):  # as in NumPy
        return x
    axes = normalize_axes(axis, x.ndim)
    wrong = [a for a in axes if x.shape[a] != 1]
    if wrong:
        raise ShapeError(f"squeeze: axis {wrong[0]} of {x.shape} does not have size 1")
    return apply(Reshape(tuple([n for i, n in enumerate(x.shape) if i not in axes])), x)


def flatten(x: Any, start_axis: int = 0, end_axis: int = -1) -> Any:
    """The axes of `x` from `start_axis` to `end_axis`, both included, as one; by default all.

    Shapes: (*s) -> (*t) with prod(t) == prod(s).
    A number becomes one element.

    >>> cr.flatten(cr.ones((2, 3))).shape, cr.flatten(cr.ones((2, 3, 4)), 1).shape
    ((6,), (2, 12))
    """
    if x.ndim == 0 or (start_axis == 0 and end_axis == -1):
        return reshape(x, (-1,))
    first, last = normalize_axis(start_axis, x.ndim), normalize_axis(end_axis, x.ndim)
    if first > last:
        raise ShapeError(f"there are no axes from {start_axis} to {end_axis} of {x.shape}")
    size = math.prod(x.shape[first : last + 1])
    return reshape(x, (*x.shape[:first], size, *x.shape[last + 1 :]))


def broadcast_arrays(*xs: Any) -> tuple[Any, ...]:
    """All of `xs` repeated to the shape to which they broadcast.

    Shapes: [(...)] -> [(...)] with len(result) == len(xs).

    >>> [x.shape for x in cr.broadcast_arrays(cr.ones((3, 1)), cr.ones(2))]
    [(3, 2), (3, 2)]
    """
    try:
        shape = np.broadcast_shapes(*[x.shape for x in xs])
    except ValueError as cause:
        raise ShapeError(
            f"broadcast_arrays: {[x.shape for x in xs]} do not broadcast (compare them from the "
            "right; sizes must match or be 1)"
        ) from cause
    return tuple([broadcast_to(x, shape) for x in xs])


# --- Dtype ---------------------------------------------------------------------------------------


class Astype(Linear):
    """The same numbers as another dtype; a real one takes the real part of complex numbers.

    No gradient flows through integers and bools. It is "rounded" where a composite that computed in
    float32 goes back to its input's dtype.
    """

    dtype: Any
    word: str = "astype"

    @property
    def name(self) -> str:
        """`astype` or `rounded`."""
        return self.word

    def eval(self, *xs: Any) -> Any:
        """A new array."""
        (x,) = xs
        drop = x.dtype.kind == "c" and self.dtype.kind != "c"
        return (x.real if drop else x).astype(self.dtype)

    def spec(self, *xs: Any) -> Spec:
        """The same shape."""
        return Spec(xs[0].shape, self.dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` as the dtype that it was."""
        return (astype(g, xs[0].dtype),)


def astype(x: Any, dtype: Any, *, copy: bool = True) -> Any:
    """The numbers of `x` as `dtype`; `x` itself if it has that dtype already."""
    del copy
    dtype = admit_dtype(dtype, "astype: a tensor")
    return x if x.dtype == dtype else apply(Astype(dtype), x)


def bias_like(bias: Any, y: Any) -> Any:
    """`bias`, as float16 or bfloat16 if `y` is one of these: so its being added leaves `y` that."""
    return astype(bias, y.dtype) if y.dtype.char in NARROW else bias


def roomy(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f(x, ...)`, computed in float32 and rounded once where x is float16 or bfloat16.

    So are its counts: 70,000 is no float16, and 257 no bfloat16. Other arguments are widened, too.

    Within `autocast` it is not rounded: what was computed in float32 stays that.
    """
    first = next(iter(signature(f).parameters))

    @wraps(f)
    def wide(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get(first)
        if x is None or x.dtype.char not in NARROW:
            return f(*args, **kwargs)
        named = {name: _single(a) for name, a in kwargs.items()}
        return apply(Astype(x.dtype, "rounded"), f(*[_single(a) for a in args], **named))

    return wide


def _single(x: Any) -> Any:
    """`x`, in float32 if it is an array of float16 or bfloat16."""
    return astype(x, np.float32) if getattr(x, "dtype", _FLOAT32).char in NARROW else x


_FLOAT32 = np.dtype(np.float32)
