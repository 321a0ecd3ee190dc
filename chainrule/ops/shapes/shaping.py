"""Ops that move elements without computing on them. Each is linear and states its transpose."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from operator import index
from typing import Any, ClassVar, cast

import numpy as np

from chainrule.engine.arrays import admit_dtype
from chainrule.engine.dtypes import NARROW, alike, result_type
from chainrule.engine.graph import apply, may_join
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


# --- Slices --------------------------------------------------------------------------------------

Key = tuple[Any, ...]
"""A basic index that can be hashed: (start, stop, step) for a slice, an int, None, or Ellipsis."""


def _slices(key: Key) -> tuple[Any, ...]:
    return tuple([slice(*cast(Key, k)) if isinstance(k, tuple) else k for k in key])


def _sliced_shape(key: Key, shape: Shape) -> Shape:
    dummy = np.broadcast_to(np.empty((), bool), shape)
    return dummy[_slices(key)].shape


class Slice(Linear):
    """Basic indexing: slices, integers, new axes."""

    key: Key

    @property
    def name(self) -> str:
        """`getitem`."""
        return "getitem"

    def eval(self, *xs: Any) -> Any:
        """A view."""
        return xs[0][_slices(self.key)]

    def spec(self, *xs: Any) -> Spec:
        """What NumPy gives."""
        return Spec(_sliced_shape(self.key, xs[0].shape), xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Zeros, with `g` in its place."""
        return (apply(Unslice(self.key, xs[0].shape), g),)


class Unslice(Linear):
    """Zeros of `shape` with the input at `key`: the transpose of `Slice`."""

    key: Key
    shape: Shape

    @property
    def name(self) -> str:
        """`pad`."""
        return "pad"

    def eval(self, *xs: Any) -> Any:
        """A new array."""
        out = np.zeros(self.shape, xs[0].dtype)
        out[_slices(self.key)] = xs[0]
        return out

    def spec(self, *xs: Any) -> Spec:
        """`shape`, and the input's dtype."""
        if _sliced_shape(self.key, self.shape) != xs[0].shape:
            raise ShapeError(f"{xs[0].shape} does not fit into {self.key} of {self.shape}")
        return Spec(self.shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The slice."""
        return (apply(Slice(self.key), g),)


def flip(x: Any, axis: Axis = None) -> Any:
    """`x` with the order of elements reversed along `axis` (all axes for None).

    Shapes: (*s) -> (*s).

    >>> cr.flip(cr.tensor([1.0, 2.0, 3.0]))
    tensor([3., 2., 1.], dtype=float32)
    """
    axes = normalize_axes(axis, x.ndim)
    back, whole = (None, None, -1), (None, None, None)
    return apply(Slice(tuple([back if i in axes else whole for i in range(x.ndim)])), x)


def roll(x: Any, shift: int | tuple[int, ...], axis: Axis = None) -> Any:
    """`x` shifted by `shift` along `axis`; what leaves at the end returns at the front.

    Shapes: (*s) -> (*s).
    With axis None, the array is shifted as if it were flat.

    >>> cr.roll(cr.tensor([1.0, 2.0, 3.0]), 1)
    tensor([3., 1., 2.], dtype=float32)
    """
    if axis is None:
        return reshape(roll(flatten(x), shift, axis=0), x.shape)
    axes = normalize_axes(axis, x.ndim)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts do not fit {len(axes)} axes")
    for a, s in zip(axes, shifts, strict=True):
        n = x.shape[a]
        cut = (-s) % n if n else 0
        if cut:
            head, tail = [[(None, None, None)] * x.ndim for _ in range(2)]
            head[a], tail[a] = (None, cut, None), (cut, None, None)
            x = concat([apply(Slice(tuple(tail)), x), apply(Slice(tuple(head)), x)], axis=a)
    return x


# --- Joining and repeating -----------------------------------------------------------------------


class Concat(Linear):
    """Inputs one after another along `axis`."""

    axis: int

    @property
    def name(self) -> str:
        """`concat`."""
        return "concat"

    def eval(self, *xs: Any) -> Any:
        """A new array, with the dtype to which all promote."""
        try:
            return np.concatenate(xs, axis=self.axis)
        except np.exceptions.DTypePromotionError:  # NumPy knows no such pair with bfloat16
            return np.concatenate(alike(*xs), axis=self.axis)

    def spec(self, *xs: Any) -> Spec:
        """The sizes along `axis` added; all others must agree."""
        rest = {tuple([n for i, n in enumerate(x.shape) if i != self.axis]) for x in xs}
        if len(rest) != 1 or len({x.ndim for x in xs}) != 1:
            raise ShapeError(f"concat: {[x.shape for x in xs]} differ outside axis {self.axis}")
        shape = list(xs[0].shape)
        shape[self.axis] = sum(x.shape[self.axis] for x in xs)
        return Spec(tuple(shape), result_type(*[x.dtype for x in xs]))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """To each its part."""
        bars: list[Any] = []
        start = 0
        for needed, x in zip(need, xs, strict=True):
            stop = start + x.shape[self.axis]
            key = [(None, None, None)] * self.axis + [(start, stop, None)]
            bars.append(apply(Slice(tuple(key)), g) if needed else None)
            start = stop
        return bars


def concat(xs: Sequence[Any], axis: int | None = 0) -> Any:
    """The arrays `xs` joined along `axis` (flattened first if None), with promoted dtype.

    Shapes: [(*s_i)] -> (sum(prod(s) for s in s_i)) if axis is None;
        [(*s, axis: n_i)] -> (*s, axis: sum(n_i)).

    >>> cr.concat([cr.tensor([1.0, 2.0]), cr.tensor([3.0])])
    tensor([1., 2., 3.], dtype=float32)
    """
    if not len(xs):
        raise ShapeError("concat needs at least one array")
    if axis is None:
        return concat([flatten(x) for x in xs], axis=0)
    return apply(Concat(normalize_axis(axis, xs[0].ndim)), *xs)


def stack(xs: Sequence[Any], axis: int = 0) -> Any:
    """The arrays `xs`, all of one shape, joined along a new axis.

    Shapes: [(*s)] -> (*s, axis: len(xs)).

    >>> cr.stack([cr.tensor([1.0, 2.0]), cr.tensor([3.0, 4.0])])
    tensor([[1., 2.],
            [3., 4.]], dtype=float32)
    """
    if not len(xs):
        raise ShapeError("stack needs at least one array")
    if len({x.shape for x in xs}) > 1:
        raise ShapeError(f"stack needs equal shapes, not {[x.shape for x in xs]}")
    shape = xs[0].shape
    axis = normalize_axis(axis, len(shape) + 1)
    if axis == len(shape):
        return concat([expand_dims(x, axis) for x in xs], axis=axis)
    return reshape(concat(xs, axis=axis), (*shape[:axis], len(xs), *shape[axis:]))


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along `axis`, without that axis.

    Shapes: (*s, axis: n) -> [(*s)] with len(result) == n.

    >>> cr.unstack(cr.tensor([[1.0, 2.0], [3.0, 4.0]]))
    (tensor([1., 2.], dtype=float32), tensor([3., 4.], dtype=float32))
    """
    axis = normalize_axis(axis, x.ndim)
    if x.shape[axis] > 1 and may_join(x):
        return apply(Unstack(axis), x)
    lead = ((None, None, None),) * axis
    return tuple([apply(Slice((*lead, i)), x) for i in range(x.shape[axis])])


class Unstack(Linear):
    """All slices along `axis`, which it does not keep: what eager calls record for `unstack`.

    The cotangent of x is made once, of those of all slices. Who is handed ops, compiles or batches
    them sees a `Slice` for each.
    """

    axis: int
    many: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """`unstack`."""
        return "unstack"

    def eval(self, *xs: Any) -> Any:
        """Views."""
        return tuple(np.moveaxis(xs[0], self.axis, 0)) if self.axis else tuple(xs[0])

    def spec(self, *xs: Any) -> Any:
        """The shape without the axis, and the input's dtype."""
        shape, n = xs[0].shape, self.axis
        return (Spec((*shape[:n], *shape[n + 1 :]), xs[0].dtype),) * shape[n]

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Those of the slices, or zeros, stacked."""
        known = next(part for part in g if part is not None)
        zeros = np.zeros(known.shape, known.dtype)
        return (stack([zeros if part is None else part for part in g], self.axis),)


def split(x: Any, sizes: int | Sequence[int], axis: int = 0) -> tuple[Any, ...]:
    """`x` cut along `axis` into pieces of the given sizes, or of one size (the last may be
    smaller).

    Shapes: (*s, axis: n) -> [(*s, axis: n_i)] with sum(n_i) == n.

    >>> [x.shape for x in cr.split(cr.ones((5, 2)), 2)]
    [(2, 2), (2, 2), (1, 2)]
    """
    axis = normalize_axis(axis, x.ndim)
    n = x.shape[axis]
    if isinstance(sizes, int):
        if sizes <= 0:
            raise ShapeError(f"split: a size must be positive, not {sizes}")
        sizes = [min(sizes, n - i) for i in range(0, n, sizes)]
    if sum(sizes) != n:
        raise ShapeError(
            f"split: sizes {list(sizes)} do not add up to {n}, axis {axis} of {x.shape}"
        )
    ends = np.cumsum(sizes).tolist()
    lead = ((None, None, None),) * axis
    starts = [0, *ends[:-1]]
    pairs = zip(starts, ends, strict=True)
    return tuple([apply(Slice((*lead, (a, b, None))), x) for a, b in pairs])


def repeat(x: Any, repeats: int, axis: int | None = None) -> Any:
    """Each element `repeats` times in a row along `axis` (of the flat array for None)."""
    if axis is None:
        x, axis = flatten(x), 0
    axis = normalize_axis(axis, x.ndim)
    shape = list(x.shape)
    wide = broadcast_to(
        expand_dims(x, axis + 1), (*shape[: axis + 1], int(repeats), *shape[axis + 1 :])
    )
    shape[axis] *= int(repeats)
    return reshape(wide, shape)


def tile(x: Any, repetitions: Sequence[int]) -> Any:
    """`x` laid out `repetitions[i]` times along axis i, new axes in front as needed.

    Shapes: (*s) -> (*t) with prod(t) == prod(s) * prod(repetitions).

    >>> cr.tile(cr.tensor([1.0, 2.0]), (2, 2))
    tensor([[1., 2., 1., 2.],
            [1., 2., 1., 2.]], dtype=float32)
    """
    reps = tuple([int(n) for n in repetitions])
    ndim = max(len(reps), x.ndim)
    reps = (1,) * (ndim - len(reps)) + reps
    shape = (1,) * (ndim - x.ndim) + tuple(x.shape)
    apart = reshape(x, [m for n in shape for m in (1, n)])
    wide = broadcast_to(apart, tuple([m for r, n in zip(reps, shape, strict=True) for m in (r, n)]))
    return reshape(wide, [r * n for r, n in zip(reps, shape, strict=True)])


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
