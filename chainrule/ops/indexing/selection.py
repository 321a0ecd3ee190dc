"""Choosing elements: by a condition, by integer indices, and the scatters that undo that."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from chainrule.engine.dtypes import Dtype, alike, float64, weakly
from chainrule.engine.graph import Variable, apply
from chainrule.engine.op import Need, Spec
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.eager_kernels import Kernel, updater
from chainrule.ops.families import Linear, empties, sum_to
from chainrule.ops.indexing.sums_at_places import add_natively, added_elements, added_slices
from chainrule.ops.shapes.shaping import Shape, flatten, normalize_axis, reshape
from chainrule.ops.shapes.slices import Slice, Unslice


class Where(Linear):
    """`a` where the condition holds, `b` elsewhere. What is not chosen gets exactly 0."""

    data = (1,)

    @property
    def name(self) -> str:
        """`where`."""
        return "where"

    def eval(self, *xs: Any) -> Any:
        """The choice, element by element."""
        condition, a, b = xs
        _check_holds(a, b)
        try:
            return cast(Any, np.where)(condition, a, b)
        except np.exceptions.DTypePromotionError:  # NumPy knows no such pair with bfloat16
            return cast(Any, np.where)(condition, *alike(a, b))

    def spec(self, *xs: Any) -> Spec:
        """Broadcast shape, promoted dtype."""
        shape = np.broadcast_shapes(*[x.shape for x in xs if isinstance(x, Spec)])
        empty = empties(xs[1:])
        _check_holds(*empty)
        return Spec(shape, weakly(empty, self.eval(np.empty(0, bool), *empty)).dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` where it was chosen."""
        a = sum_to(where(xs[0], g, 0), xs[1].shape) if need[1] else None
        b = sum_to(where(xs[0], 0, g), xs[2].shape) if need[2] else None
        return None, a, b


def _check_holds(a: Any, b: Any) -> None:
    """Raise where a whole number beside integers is none of their dtype: NumPy's `where` cuts it to
    its bits (300 beside uint8 is 44)."""
    for n, x in ((a, b), (b, a)):
        if n.__class__ is int and getattr(x, "dtype", float64).kind in "iu":
            np.array(n, x.dtype)  # raises


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where `condition` holds, else `b`; all three broadcast. Dtypes of a and b promote.

    Shapes: (...), (...), (...) -> (...).
    The branch that is not chosen has gradient exactly 0, even where its own derivative is infinite.

    >>> cr.where(cr.tensor([True, False]), cr.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.], dtype=float32)
    """
    return apply(Where(), condition, a, b)


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """`x` limited to [min, max]; the gradient at a bound goes to `x`. None stands for no bound.

    Shapes: (...), (...), (...) -> (...).

    >>> cr.clip(cr.tensor([-2.0, 0.5, 2.0]), 0.0, 1.0)
    tensor([0. , 0.5, 1. ], dtype=float32)
    """
    if min is not None:
        x = ew.at_least(x, min)
    return x if max is None else ew.at_most(x, max)


# --- Along one axis, by integers -----------------------------------------------------------------


class Take(Linear):
    """Slices of x along `axis` at integer indices of any shape: (.., n, ..), (k, ..) -> (.., k, ..,
    ..).
    """

    axis: int
    data = (2,)

    @property
    def name(self) -> str:
        """`take`."""
        return "take"

    def eval(self, *xs: Any) -> Any:
        """A new array; an index outside raises."""
        return np.take(xs[0], xs[1], axis=self.axis)

    def spec(self, *xs: Any) -> Spec:
        """The indices' shape in place of the axis."""
        x, index = xs
        return Spec((*x.shape[: self.axis], *index.shape, *x.shape[self.axis + 1 :]), x.dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` added to where it came from."""
        return apply(TakeAdd(self.axis, xs[0].shape), g, xs[1]), None


class TakeAdd(Linear):
    """Zeros of `shape` with the slices of g added at integer indices: the transpose of `Take`."""

    axis: int
    shape: Shape
    data = (2,)

    @property
    def name(self) -> str:
        """`scatter_add`."""
        return "scatter_add"

    def eval(self, *xs: Any) -> Any:
        """A new array; equal indices add up, in order."""
        g, indices = xs
        made = add_natively(_adding_kernel, self.shape, self.axis, indices, g)
        return added_slices(self.shape, self.axis, indices, g) if made is None else made

    def spec(self, *xs: Any) -> Spec:
        """`shape`, and the dtype of g."""
        return Spec(self.shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The slices."""
        return apply(Take(self.axis), g, xs[1]), None


@cache
def _adding_kernel(several: bool, dtype: Dtype) -> Kernel:
    def added(xs: Sequence[Any]) -> list[Any]:
        out, indices, g = xs
        return [out + apply(TakeAdd(1, out.shape), g, indices)]

    letters = ["BNA", "K", "BKA"] if several else ["BN", "K", "BK"]
    return updater()("slices added at indices", added, letters, (dtype, np.dtype(np.int64), dtype))


def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    """The slices of `x` along `axis` (of the flat array for None) at integer `indices` of any
    shape.

    Shapes: (*s, axis: n), (*i) -> (*i) if axis is None; (*s, axis: n), (*i) -> (*s, axis: *i).

    >>> cr.take(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([1, 1]), axis=0)
    tensor([[3., 4.],
            [3., 4.]], dtype=float32)
    """
    if axis is None or (x.ndim == 0 and axis in (0, -1)):  # NumPy takes a number for one element
        x, axis = flatten(x), 0
    return apply(Take(normalize_axis(axis, x.ndim)), x, _integers("take", indices))


def _integers(what: str, indices: Any) -> Any:
    """Indices as an integer array or variable."""
    array = as_array(indices)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{what}: indices must be integers, not {array.dtype}")
    return array


def as_array(indices: Any) -> Any:
    """An array or variable itself; lists and numbers as an array (an empty list as integers)."""
    if isinstance(indices, Variable) or (
        hasattr(indices, "dtype") and not isinstance(indices, type)
    ):
        return indices
    array = np.asarray(indices)
    return array if array.size else array.astype(np.int64)


class TakeAlong(Linear):
    """Elements of x along `axis` at indices of the same number of axes; other axes broadcast."""

    axis: int
    data = (2,)

    @property
    def name(self) -> str:
        """`take_along_axis`."""
        return "take_along_axis"

    def eval(self, *xs: Any) -> Any:
        """A new array; an index outside raises."""
        return np.take_along_axis(xs[0], xs[1], axis=self.axis)

    def spec(self, *xs: Any) -> Spec:
        """The broadcast shape, with the indices' size along the axis."""
        x, index = xs
        if x.ndim != index.ndim:
            raise ShapeError(f"take_along_axis: {x.shape} and indices {index.shape} differ in axes")
        hole = [list(s.shape) for s in xs]
        for h in hole:
            h[self.axis] = 1
        shape = list(np.broadcast_shapes(*map(tuple, hole)))
        shape[self.axis] = index.shape[self.axis]
        return Spec(tuple(shape), x.dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` added to where it came from."""
        return apply(TakeAlongAdd(self.axis, xs[0].shape), g, xs[1]), None


class TakeAlongAdd(Linear):
    """Zeros of `shape` with the elements of g added along `axis`: the transpose of `TakeAlong`."""

    axis: int
    shape: Shape
    data = (2,)

    @property
    def name(self) -> str:
        """`scatter_add`."""
        return "scatter_add"

    def eval(self, *xs: Any) -> Any:
        """A new array; equal indices add up, in order."""
        g, index = xs
        return added_elements(self.shape, self._places(g.shape, index), g)

    def _places(self, shape: Shape, index: Any) -> tuple[Any, ...]:
        """For each axis the index that every element of g has in the result."""
        places: list[Any] = []
        for a, n in enumerate(self.shape):
            if a == self.axis:
                places.append(np.broadcast_to(index, shape))
            else:
                row = np.arange(n).reshape([-1 if i == a else 1 for i in range(len(shape))])
                places.append(row)
        return tuple(places)

    def spec(self, *xs: Any) -> Spec:
        """`shape`, and the dtype of g."""
        return Spec(self.shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The elements."""
        return apply(TakeAlong(self.axis), g, xs[1]), None


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    """Elements of `x` along `axis` at `indices`: y[.., i, ..] = x[.., indices[.., i, ..], ..].

    Shapes: (..., axis: n), (..., axis: k) -> (..., axis: k).

    >>> cr.take_along_axis(cr.tensor([[3.0, 1.0]]), cr.tensor([[1, 0]]), axis=1)
    tensor([[1., 3.]], dtype=float32)
    """
    axis = normalize_axis(axis, x.ndim)
    return apply(TakeAlong(axis), x, _integers("take_along_axis", indices))


def gather(x: Any, axis: int, indices: Any) -> Any:
    """y[.., i, ..] = x[.., indices[.., i, ..], ..], as in PyTorch: the indices' shape comes out.

    Shapes: (*s), indices (*i) -> (*i) with len(i) == len(s).
    Along other axes the indices may be smaller than `x`, of which that part is taken; nothing
    broadcasts. In `take_along_axis` they broadcast.

    >>> cr.gather(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, cr.tensor([[0], [1]]))
    tensor([[1.],
            [4.]], dtype=float32)
    """
    axis, indices = normalize_axis(axis, x.ndim), _integers("gather", indices)
    part = _part("gather", x.shape, axis, indices)
    x = x if part is None else apply(Slice(part), x)
    return apply(TakeAlong(axis), x, indices)


def _part(what: str, shape: Shape, axis: int, indices: Any) -> Any:
    """The key of the part of an array of that shape which indices of this shape speak of; None if
    it is all."""
    sizes = tuple(indices.shape)
    if len(sizes) != len(shape):
        raise ShapeError(
            f"{what}: x {tuple(shape)} and indices {sizes} need the same number of axes"
        )
    rest = [(m, n) for a, (m, n) in enumerate(zip(sizes, shape, strict=True)) if a != axis]
    if any(m > n for m, n in rest):
        raise ShapeError(
            f"{what}: indices {sizes} are larger than x {tuple(shape)} outside axis {axis}"
        )
    if all(m == n for m, n in rest):
        return None
    return tuple([(None, None if a == axis else m, None) for a, m in enumerate(sizes)])


def scatter_add(x: Any, axis: int, indices: Any, source: Any) -> Any:
    """`x` with the elements of `source` added at `indices` along `axis`; equal indices add up.

    Shapes: (*s), indices (*i), source (*j) -> (*s) with len(i) == len(s) and len(j) == len(s).
    As in PyTorch nothing broadcasts: along other axes than `axis` the indices may be smaller than
    `x`, and `source` larger than the indices, of which that part is taken.

    >>> cr.scatter_add(cr.ones((1, 2)), 1, cr.tensor([[0, 0]]), cr.tensor([[5.0, 6.0]]))
    tensor([[12.,  1.]], dtype=float32)
    """
    axis, indices = normalize_axis(axis, x.ndim), _integers("scatter_add", indices)
    part, sizes = _part("scatter_add", x.shape, axis, indices), tuple(indices.shape)
    given = tuple(source.shape)
    if len(given) != len(sizes) or any(m > n for m, n in zip(sizes, given, strict=True)):
        raise ShapeError(
            f"scatter_add: source {given} has not as many elements as the indices {sizes} name; "
            "give both the same shape"
        )
    if given != sizes:
        source = apply(Slice(tuple([(None, m, None) for m in sizes])), source)
    shape = (*sizes[:axis], x.shape[axis], *sizes[axis + 1 :])
    added = apply(TakeAlongAdd(axis, shape), source, indices)
    return x + (added if part is None else apply(Unslice(part, tuple(x.shape)), added))


# --- Indexing with arrays ------------------------------------------------------------------------


def one_hot(indices: Any, classes: int, *, dtype: Any = np.float32) -> Any:
    """1 at each index along a new last axis of size `classes`, 0 elsewhere.

    Shapes: (*s) -> (*s, classes).

    >>> cr.one_hot(cr.tensor([0, 2]), 3)
    tensor([[1., 0., 0.],
            [0., 0., 1.]], dtype=float32)
    """
    if classes < 0:
        raise ConfigError(
            f"one_hot: there cannot be {classes} classes; where -1 stands for what the indices "
            "need, as in PyTorch, say int(max(indices)) + 1"
        )
    indices = _integers("one_hot", indices)
    rows = reshape(indices, (*indices.shape, 1)) == np.arange(classes)
    return rows.astype(dtype)
