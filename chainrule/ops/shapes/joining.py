"""Joining, cutting, rolling and repeating arrays along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from chainrule.engine.dtypes import alike, result_type
from chainrule.engine.graph import apply, may_join
from chainrule.engine.op import Need, Spec
from chainrule.errors import ShapeError
from chainrule.ops.families import Linear, broadcast_to
from chainrule.ops.shapes.shaping import (
    Axis,
    expand_dims,
    flatten,
    normalize_axes,
    normalize_axis,
    reshape,
)
from chainrule.ops.shapes.slices import Slice


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
    smaller), as in PyTorch. NumPy's `np.split` takes the number of pieces, or the places to cut at:
    write `tensor_split`, or `np.split`, which takes tensors.

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
            f"split: sizes {list(sizes)} do not add up to {n}, axis {axis} of {x.shape}; places to "
            "cut at, as in np.split, are given to tensor_split"
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
