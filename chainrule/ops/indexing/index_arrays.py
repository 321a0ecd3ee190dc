"""Indexing with arrays of integers and of bools, as `x[i, j]`, and the scatter that undoes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.graph import Variable, apply, value_of
from chainrule.engine.op import Need, Spec
from chainrule.engine.provenance import location, source_quote, user_line
from chainrule.errors import DtypeError, TraceError, describe
from chainrule.ops.families import Linear
from chainrule.ops.indexing.selection import as_array
from chainrule.ops.indexing.sums_at_places import added_elements
from chainrule.ops.shapes.shaping import Shape
from chainrule.ops.shapes.slices import Slice

_PLACE = "index array"


class Index(Linear):
    """NumPy's indexing with integer or bool arrays; `template` says where they stand in the key."""

    template: tuple[Any, ...]

    @property
    def name(self) -> str:
        """`getitem`."""
        return "getitem"

    @property
    def data(self) -> tuple[int, ...]:  # type: ignore[override]
        """Every index array."""
        return tuple(range(2, 2 + self.template.count(_PLACE)))

    def key(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The index as NumPy takes it."""
        rest = iter(arrays)
        return tuple(
            [
                next(rest) if k == _PLACE else slice(*cast(Shape, k)) if isinstance(k, tuple) else k
                for k in self.template
            ]
        )

    def eval(self, *xs: Any) -> Any:
        """A new array."""
        return xs[0][self.key(xs[1:])]

    def spec(self, *xs: Any) -> Spec:
        """What NumPy gives; the shape must not depend on the values of a bool array."""
        if [x for x in xs[1:] if x.dtype.kind == "b"]:
            line = user_line()
            raise DtypeError(
                f"indexing {describe(xs[0])} with a bool array at {location(*line)} gives a shape "
                "that depends on values; use where(mask, x, 0), which keeps the shape"
                f"{source_quote(*line)}"
            )
        dummy = np.broadcast_to(np.empty((), bool), xs[0].shape)
        zeros = [np.zeros(x.shape, np.int64) for x in xs[1:]]
        return Spec(dummy[self.key(zeros)].shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` added to where it came from."""
        bar = apply(IndexAdd(self.template, xs[0].shape), g, *xs[1:])
        return (bar, *[None] * (len(xs) - 1))


class IndexAdd(Linear):
    """Zeros of `shape` with g added at an index with arrays: the transpose of `Index`."""

    template: tuple[Any, ...]
    shape: Shape

    @property
    def name(self) -> str:
        """`scatter_add`."""
        return "scatter_add"

    @property
    def data(self) -> tuple[int, ...]:  # type: ignore[override]
        """Every index array."""
        return Index(self.template).data

    def eval(self, *xs: Any) -> Any:
        """A new array; equal indices add up, in order."""
        return added_elements(self.shape, Index(self.template).key(xs[1:]), xs[0])

    def spec(self, *xs: Any) -> Spec:
        """`shape`, and the dtype of g."""
        return Spec(self.shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The elements."""
        return (apply(Index(self.template), g, *xs[1:]), *[None] * (len(xs) - 1))


def getitem(x: Any, key: Any) -> Any:
    """`x[key]` for everything that NumPy takes as a key: basic, integer and bool arrays, mixed."""
    template: list[Any] = []
    arrays: list[Any] = []
    keys: tuple[Any, ...] = cast(Any, key) if isinstance(key, tuple) else (key,)
    for k in keys:
        if isinstance(k, slice):
            s = cast(Any, k)
            template.append((_integer(s.start), _integer(s.stop), _integer(s.step)))
        elif k is None or k is Ellipsis:
            template.append(k)
        elif isinstance(k, int | np.integer) and not isinstance(k, bool):
            template.append(k.__index__())
        else:
            template.append(_PLACE)
            arrays.append(_index_array(k))
    if not arrays:
        return apply(Slice(tuple(template)), x)
    return apply(Index(tuple(template)), x, *arrays)


def _integer(k: Any) -> int | None:
    return None if k is None else k.__index__()


def _index_array(k: Any) -> Any:
    array = as_array(k)
    if array.dtype.kind not in "iub":
        raise DtypeError(f"an index must be integers or bools, not {array.dtype}")
    return array


def nonzero(x: Any) -> tuple[Any, ...]:
    """For each axis the int64 indices of the elements that are not 0, in row-major order.

    Shapes: (*s) -> [(k)] with len(result) == len(s).

    >>> cr.nonzero(cr.tensor([0.0, 1.0, 2.0]))
    (tensor([1, 2], dtype=int64),)
    """
    value = value_of(x)
    if isinstance(value, Spec):
        line = user_line()
        raise TraceError(
            f"nonzero at {location(*line)}: how many elements of {value} are not 0 is not "
            f"known while it is traced; call it outside, or use where{source_quote(*line)}"
        )
    found = np.nonzero(value)
    wrap = type(x) if isinstance(x, Variable) else np.asarray
    return tuple([wrap(i) for i in found])  # type: ignore[call-arg]
