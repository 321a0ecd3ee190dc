"""Writing into an array without changing it: scatters, assignment, masks, triangles, grids.

An index of any kind is first turned into flat places, by indexing the numbers 0, 1, 2, ... with it.
An array of integers says which element of the source each element of the result gets. The rest,
with its derivatives of every order, is a selection.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from chainrule.engine.graph import Variable, apply
from chainrule.engine.op import Op, Spec
from chainrule.errors import (
    ConfigError,
    DtypeError,
    IndexingError,
    ShapeError,
    describe,
)
from chainrule.ops import elementwise as ew
from chainrule.ops.families import broadcast_to
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.indexing.selection import TakeAdd, take, where
from chainrule.ops.shapes.joining import concat
from chainrule.ops.shapes.padding import pad
from chainrule.ops.shapes.shaping import Shape, astype, flatten, normalize_axis, reshape
from chainrule.ops.shapes.slices import Slice

# --- Overwriting ---------------------------------------------------------------------------------


class LastWriter(Op):
    """For each of `size` places the number of the last index that names it, -1 if none does."""

    size: int

    @property
    def name(self) -> str:
        """`scatter`."""
        return "scatter"

    def eval(self, *xs: Any) -> Any:
        """NumPy's assignment, in which the last of equal indices stays."""
        places = xs[0].reshape(-1)
        out = np.full(self.size, -1, np.int64)
        out[places] = np.arange(places.size)
        return out

    def spec(self, *xs: Any) -> Spec:
        """(size,), int64."""
        return Spec((self.size,), np.dtype(np.int64))

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


def flat_places(shape: Shape) -> Any:
    """0, 1, 2, ... in the given shape: indexed like an array, it gives flat places."""
    return np.arange(math.prod(shape)).reshape(shape)


def overwrite(what: str, x: Any, places: Any, source: Any) -> Any:
    """`x` with `source`, which broadcasts, at the flat `places`; the last of equal ones stays."""
    source = _fitting(what, source, tuple(places.shape), x)
    if 0 in places.shape:
        return x
    writer = apply(LastWriter(math.prod(x.shape)), places)
    new = where(writer >= 0, take(flatten(source), writer, axis=0), flatten(x))
    return reshape(new, tuple(x.shape))


def _fitting(what: str, source: Any, shape: Shape, x: Any) -> Any:
    """`source` in the dtype of x, repeated to `shape`."""
    source = source if hasattr(source, "dtype") else np.asarray(source, x.dtype)
    extra = max(len(source.shape) - len(shape), 0)
    if extra and set(source.shape[:extra]) == {1}:  # an assignment may drop them
        source = reshape(source, tuple(source.shape[extra:]))
    try:
        return broadcast_to(astype(source, x.dtype), shape)
    except ValueError as cause:
        raise ShapeError(
            f"{what}: values of shape {tuple(source.shape)} do not broadcast to {shape}, the shape "
            f"of what the index selects from {tuple(x.shape)}"
        ) from cause


def index_put(x: Any, key: Any, values: Any, *, accumulate: bool = False) -> Any:
    """`x` with `x[key] = values`, or with `accumulate` `x[key] += values`, as a new array.

    Shapes: (*s) -> (*s).
    `key` is anything that indexes: slices, integer and bool arrays, mixed. `values` broadcast to
    the shape of `x[key]` and take the dtype of `x`. Of equal indices the last stays, and alone gets
    a gradient; with `accumulate` they add up. What is overwritten has gradient 0.

    >>> cr.index_put(cr.zeros(3), (cr.tensor([0, 2]),), cr.tensor([1.0, 2.0]))
    tensor([1., 0., 2.], dtype=float32)
    """
    places = getitem(flat_places(tuple(x.shape)), key)
    if not accumulate:
        return overwrite("index_put", x, places, values)
    values = _fitting("index_put", values, tuple(places.shape), x)
    added = apply(TakeAdd(0, (math.prod(x.shape),)), values, places)
    return x + reshape(added, tuple(x.shape))


def put(x: Any, indices: Any, values: Any, *, accumulate: bool = False) -> Any:
    """`x` with `values` at `indices` of the flat array; duplicates as in `index_put`.

    Shapes: (*s) -> (*s).

    >>> cr.put(cr.zeros((2, 2)), cr.tensor([0, 3]), cr.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]], dtype=float32)
    """
    flat = index_put(flatten(x), _integers("put", indices), values, accumulate=accumulate)
    return reshape(flat, tuple(x.shape))


def scatter(x: Any, axis: int, indices: Any, source: Any) -> Any:
    """`x` with source[.., i, ..] at x[.., indices[.., i, ..], ..]: `axis` alone is indexed.

    Shapes: (*s), indices (*i) -> (*s) with len(i) == len(s).
    `indices` has as many axes as `x` and, but for `axis`, no larger sizes; `source` (an array of at
    least the shape of indices, or a number) is cut to it. Of equal indices the last stays, and
    alone gets a gradient. What is overwritten has gradient 0.

    >>> cr.scatter(cr.zeros((2, 2)), 1, cr.tensor([[1], [0]]), cr.tensor([[5.0], [6.0]]))
    tensor([[0., 5.],
            [6., 0.]], dtype=float32)
    """
    places, source = places_and_source("scatter", x, axis, indices, source)
    return overwrite("scatter", x, places, source)


def index_copy(x: Any, axis: int, indices: Any, source: Any) -> Any:
    """`x` with the slices of `source` at `indices` (one axis) along `axis`; the last of equals.

    Shapes: (*s, axis: n), indices (k), source (*s, axis: k) -> (*s, axis: n).

    >>> cr.index_copy(cr.zeros(3), 0, cr.tensor([2, 0]), cr.tensor([1.0, 2.0]))
    tensor([2., 0., 1.], dtype=float32)
    """
    axis, indices = _one_axis("index_copy", x, axis, indices)
    return overwrite("index_copy", x, take(flat_places(tuple(x.shape)), indices, axis=axis), source)


def _integers(what: str, indices: Any) -> Any:
    array = indices if hasattr(indices, "dtype") else np.asarray(indices)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{what}: indices must be integers, not {array.dtype}")
    return array


def _one_axis(what: str, x: Any, axis: int, indices: Any) -> tuple[int, Any]:
    indices = _integers(what, indices)
    if indices.ndim != 1:
        raise ShapeError(f"{what}: indices have one axis, not shape {tuple(indices.shape)}")
    return normalize_axis(axis, x.ndim), indices


def places_and_source(what: str, x: Any, axis: int, indices: Any, source: Any) -> tuple[Any, Any]:
    """The flat places that `indices` along `axis` name, and the part of `source` that goes there.

    Both have the shape of `indices`.
    """
    axis, indices = normalize_axis(axis, x.ndim), _integers(what, indices)
    shape: Shape = tuple(indices.shape)
    size: Shape = tuple(x.shape)
    pairs = enumerate(zip(shape, size, strict=False))
    if indices.ndim != x.ndim or [1 for a, (m, n) in pairs if a != axis and m > n]:
        raise ShapeError(
            f"{what}: indices {shape} need as many axes as x {size} and, but for axis {axis}, no "
            "larger sizes"
        )
    source = source if hasattr(source, "dtype") else np.asarray(source, x.dtype)
    if source.ndim:
        if source.ndim != len(shape) or any(
            n < m for n, m in zip(source.shape, shape, strict=True)
        ):
            raise ShapeError(
                f"{what}: source {tuple(source.shape)} is smaller than its indices {shape}"
            )
        source = apply(Slice(tuple([(None, m, None) for m in shape])), source)
    _check_range(what, indices, size[axis], axis)
    strides = [math.prod(size[a + 1 :]) for a in range(len(size))]
    start: Any = np.zeros((), np.int64)
    for a, m in enumerate(shape):
        if a != axis:
            start = start + (np.arange(m) * strides[a]).reshape(-1, *[1] * (len(shape) - a - 1))
    # a lookup, not a product: where it is compiled, an index that is outside is noticed
    places = take(np.arange(size[axis]) * strides[axis], indices, axis=0) + start
    return places, broadcast_to(astype(source, x.dtype), shape)


def _check_range(what: str, indices: Any, size: int, axis: int) -> None:
    value = indices.value if isinstance(indices, Variable) else indices
    if type(value) is Spec or value.size == 0:
        return
    if value.min() < -size or value.max() >= size:
        wrong = value.max() if value.max() >= size else value.min()
        raise IndexingError(f"{what}: index {wrong} is outside axis {axis} of size {size}")


# --- Reducing ------------------------------------------------------------------------------------


def index_add(x: Any, axis: int, indices: Any, source: Any) -> Any:
    """`x` with the slices of `source` added at `indices` (one axis) along `axis`; equals add up.

    Shapes: (*s, axis: n), indices (k), source (*s, axis: k) -> (*s, axis: n).

    >>> cr.index_add(cr.zeros(3), 0, cr.tensor([0, 2, 2]), cr.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 5.], dtype=float32)
    """
    axis, indices = _one_axis("index_add", x, axis, indices)
    shape = (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :])
    source = _fitting("index_add", source, shape, x)
    return x + apply(TakeAdd(axis, tuple(x.shape)), source, indices)


def index_select(x: Any, axis: int, indices: Any) -> Any:
    """The slices of `x` at `indices` (one axis) along `axis`: PyTorch's form of `take`.

    Shapes: (*s, axis: n), indices (k) -> (*s, axis: k).

    >>> cr.index_select(cr.tensor([1.0, 2.0, 3.0]), 0, cr.tensor([2, 0]))
    tensor([3., 1.], dtype=float32)
    """
    axis, indices = _one_axis("index_select", x, axis, indices)
    return take(x, indices, axis=axis)


# --- Masks, triangles, diagonals -----------------------------------------------------------------


def bool_mask(what: str, mask: Any) -> Any:
    """`mask` as an array of bools; `what` asks for it."""
    array = mask if hasattr(mask, "dtype") else np.asarray(mask)
    if array.dtype.kind != "b":
        raise DtypeError(
            f"{what}: a mask is bools, not {array.dtype}; compare, or use astype(bool)"
        )
    return array


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """`x` with `value` (a number, or without axes) where the bool `mask` holds; both broadcast.

    Shapes: (...), (...) -> (...).
    The dtype is that of `x`; a value that it cannot hold is refused.

    >>> cr.masked_fill(cr.tensor([1.0, 2.0]), cr.tensor([True, False]), 0.0)
    tensor([0., 2.], dtype=float32)
    """
    return where(bool_mask("masked_fill", mask), _filling(value, x.dtype), x)


_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}


def _filling(value: Any, dtype: Any) -> Any:
    """`value` in that dtype; a number of Python's that fits takes it by itself."""
    given = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    if _RANKS.get(given.kind, 4) > _RANKS[dtype.kind]:
        raise DtypeError(
            f"masked_fill: x is {dtype}, which cannot hold {describe(value)}; use astype first"
        )
    return astype(value, dtype) if hasattr(value, "dtype") else value


def masked_select(x: Any, mask: Any) -> Any:
    """The elements of `x` where `mask` holds, in row-major order, along one axis.

    Shapes: (...), (...) -> (k).
    Both broadcast. The size depends on values, so that this cannot be traced.

    >>> cr.masked_select(cr.tensor([1.0, 2.0]), cr.tensor([True, False]))
    tensor([1.], dtype=float32)
    """
    mask = bool_mask("masked_select", mask)
    shape = np.broadcast_shapes(tuple(x.shape), tuple(mask.shape))
    return getitem(broadcast_to(x, shape), broadcast_to(mask, shape))


def tril(x: Any, *, k: int = 0) -> Any:
    """`x` with zeros above its k-th diagonal. Any dtype, same dtype out.

    Shapes: (..., m, n) -> (..., m, n).

    >>> cr.tril(cr.ones((2, 2)))
    tensor([[1., 0.],
            [1., 1.]], dtype=float32)
    """
    return where(_lower("tril", x, k), x, np.zeros((), x.dtype))


def triu(x: Any, *, k: int = 0) -> Any:
    """`x` with zeros below its k-th diagonal. Any dtype, same dtype out.

    Shapes: (..., m, n) -> (..., m, n).

    >>> cr.triu(cr.ones((2, 2)), k=1)
    tensor([[0., 1.],
            [0., 0.]], dtype=float32)
    """
    return where(_lower("triu", x, k - 1), np.zeros((), x.dtype), x)


def _lower(what: str, x: Any, k: int) -> Any:
    if x.ndim < 2:
        raise ShapeError(f"{what}: needs at least 2 axes, not shape {tuple(x.shape)}")
    return np.tri(x.shape[-2], x.shape[-1], k, dtype=bool)


def diag_embed(x: Any, *, offset: int = 0) -> Any:
    """Matrices with the last axis of `x` on diagonal number `offset`.

    Shapes: (..., n) -> (..., n + abs(offset), n + abs(offset)).

    >>> cr.diag_embed(cr.ones((3, 2))).shape
    (3, 2, 2)
    """
    if x.ndim < 1:
        raise ShapeError("diag_embed: needs at least 1 axis, not shape ()")
    before, after = max(-offset, 0), max(offset, 0)
    rows = pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)])
    on = np.eye(rows.shape[-1], k=offset, dtype=bool)
    return where(on, reshape(rows, (*rows.shape, 1)), np.zeros((), x.dtype))


# --- Grids, differences --------------------------------------------------------------------------


def meshgrid(*xs: Any, indexing: Literal["xy", "ij"] = "xy") -> tuple[Any, ...]:
    """Arrays with one axis as coordinates of a grid, each with the grid's shape.

    With "ij" axis i of the grid is that of xs[i]; with "xy" the first two are exchanged.
    """
    if indexing not in ("xy", "ij"):
        raise ConfigError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    if [x for x in xs if x.ndim != 1]:
        raise ShapeError(
            f"meshgrid: takes arrays with one axis, not {[tuple(x.shape) for x in xs]}"
        )
    axes = list(range(len(xs)))
    if indexing == "xy":
        axes[:2] = axes[1::-1]
    shape = tuple([xs[a].shape[0] for a in axes])
    placed = [reshape(x, [-1 if a == i else 1 for a in axes]) for i, x in enumerate(xs)]
    return tuple([broadcast_to(x, shape) for x in placed])


def diff(x: Any, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The differences x[i+1] - x[i] along `axis`, `n` times; of bools, whether they differ.

    Shapes: (*s, axis: m) -> (*s, axis: max(m - n, 0)) if prepend is None and append is None;
        (*s, axis: m) -> (*s, axis: k).
    `prepend` and `append` are joined to x along the axis first.

    >>> cr.diff(cr.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.], dtype=float32)
    """
    if n < 0:
        raise ConfigError(f"diff: n is at least 0, not {n}")
    if n == 0:
        return x
    axis = normalize_axis(axis, x.ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    x = concat(parts, axis=axis) if len(parts) > 1 else x
    lead = ((None, None, None),) * axis
    for _ in range(min(n, x.shape[axis])):  # then nothing is left
        after = apply(Slice((*lead, (1, None, None))), x)
        before = apply(Slice((*lead, (None, -1, None))), x)
        x = ew.not_equal(after, before) if x.dtype.kind == "b" else after - before
    return x
