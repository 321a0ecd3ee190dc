"""Slices of arrays, their transpose, and axes that are reversed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Need, Spec
from chainrule.errors import ShapeError
from chainrule.ops.families import Linear
from chainrule.ops.shapes.shaping import Axis, Shape, normalize_axes

Key = tuple[Any, ...]
"""A basic index that can be hashed: (start, stop, step) for a slice, an int, None, or Ellipsis."""


def _slices(key: Key) -> tuple[Any, ...]:
    """The index that NumPy takes, from one that can be hashed."""
    return tuple([slice(*cast(Key, k)) if isinstance(k, tuple) else k for k in key])


def _sliced_shape(key: Key, shape: Shape) -> Shape:
    """The shape of a slice of an array of that shape."""
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
