"""Gradients as flat vectors, weighted, and the tree over the micro-batches of one worker.

Notation: P parameters. A micro-batch of weight w with gradients g adds w * g, and w itself: the
average is the sum of the first over the sum of the second, for shards of any sizes.

Sums of blocks of micro-batches are kept on a stack, as a binary counter keeps its ones: two blocks
of one size become a block of twice that size. So micro-batches are added in a fixed binary tree,
and a worker that has an aligned block of them, as many as a power of two, holds one of its nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from sys import getrefcount
from typing import Any, cast, final

import numpy as np

from chainrule.errors import ConfigError
from chainrule.graph import variable
from chainrule.nn.base.module import Module
from chainrule.op import Array
from chainrule.tensors import Tensor

FACTS = 2
"""Float64 numbers before one for each parameter: the weight, and the loss times the weight."""
Sums = list[Array]
"""The facts, then a vector for each dtype."""


def wide(dtype: Any) -> np.dtype[Any]:
    """The dtype that gradients are summed in: halves in float32, complex as pairs of reals."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


@final
class Layout:
    """Where the gradients of parameters, by name, stand in one vector for each dtype."""

    def __init__(self, named: Mapping[str, Tensor]) -> None:
        self.named = dict(named)
        ends: dict[np.dtype[Any], int] = {}
        self.places: list[tuple[np.dtype[Any], slice]] = []
        for p in self.named.values():
            dtype = wide(p.dtype)
            start = ends.get(dtype, 0)
            ends[dtype] = start + p.size * (2 if p.dtype.kind == "c" else 1)
            self.places.append((dtype, slice(start, ends[dtype])))
        self.sizes = ends
        self._memory = {dtype: list[Array]() for dtype in ends}

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """Which tensors these are."""
        return tuple([id(p) for p in self.named.values()])

    def take(self, weight: float, loss: float) -> Sums:
        """The weighted gradients of one micro-batch; the parameters have none afterwards.

        What weighs 0 adds nothing, whatever its gradients are.
        """
        facts = np.zeros(FACTS + len(self.named))
        vectors = {dtype: self._vector(dtype) for dtype in self.sizes}
        for i, (p, (dtype, place)) in enumerate(zip(self.named.values(), self.places, strict=True)):
            g, out = p.grad, vectors[dtype][place]
            if g is None or weight == 0:
                out[...] = 0
            else:
                facts[FACTS + i] = 1
                with np.errstate(all="ignore"):  # an infinite gradient stays one
                    np.multiply(_real(g.value), weight, out=out, dtype=dtype, casting="same_kind")
            p.grad = None
        if weight:
            facts[:FACTS] = weight, weight * loss
        return [facts, *vectors.values()]

    def put(self, sums: Sums) -> None:
        """Give the parameters the average gradients. Who has none in any micro-batch gets none."""
        facts, *vectors = sums
        with np.errstate(all="ignore"):
            for v in vectors:
                np.divide(v, facts[0], out=v, dtype=v.dtype, casting="same_kind")
        by_dtype = dict(zip(self.sizes, vectors, strict=True))
        for i, (p, (dtype, place)) in enumerate(zip(self.named.values(), self.places, strict=True)):
            if facts[FACTS + i]:
                p.grad = variable(_like(by_dtype[dtype][place], p))

    def _vector(self, dtype: np.dtype[Any]) -> Array:
        """Memory that nobody else sees: a gradient may still be a view of an older vector."""
        memory = self._memory[dtype]
        for i in range(len(memory)):
            if getrefcount(memory[i]) == _ALONE:
                return memory[i]
        memory.append(np.empty(self.sizes[dtype], dtype))
        return memory[-1]


_probe = [np.empty(0)]
_ALONE = getrefcount(_probe[0])
"""What is counted where only a list has an array."""


def _real(g: Array) -> Array:
    flat = np.ascontiguousarray(g).reshape(-1)
    return flat.view(wide(flat.dtype)) if flat.dtype.kind == "c" else flat


def _like(flat: Array, p: Tensor) -> Array:
    if p.dtype.kind == "c":
        flat = flat.view(p.dtype)
    return flat.reshape(p.shape).astype(p.dtype, copy=False)


@final
class Subtree:
    """The sum of a worker's micro-batches so far, as blocks on a stack."""

    def __init__(self) -> None:
        self.count = 0
        self._blocks: list[tuple[int, Sums]] = []

    def add(self, sums: Sums) -> None:
        """Add the next micro-batch."""
        self.count += 1
        size = 1
        while self._blocks and self._blocks[-1][0] == size:
            sums = _add(self._blocks.pop()[1], sums)
            size *= 2
        self._blocks.append((size, sums))

    def total(self) -> Sums:
        """The sum of all; the stack is empty afterwards."""
        _, sums = self._blocks.pop()
        while self._blocks:
            sums = _add(self._blocks.pop()[1], sums)
        self.count = 0
        return sums


def _add(lower: Sums, upper: Sums) -> Sums:
    with np.errstate(all="ignore"):
        for a, b in zip(lower, upper, strict=True):
            np.add(a, b, out=a)
    return lower


def finite_weight(weight: Any) -> float:
    """A weight as a float; raises `ConfigError` unless it is a number of at least 0."""
    value = float(weight.item() if isinstance(weight, Tensor) else weight)
    if not 0 <= value < math.inf:
        raise ConfigError(f"add_gradients: a weight is a number of at least 0, not {value}")
    return value


def all_of(what: Any) -> Sequence[tuple[str, Tensor]]:
    """Parameters by name: of a module, of a dict, or of a list, numbered."""
    if isinstance(what, Module):
        return list(what.named_parameters())
    if isinstance(what, Tensor):
        return [("0", what)]
    if isinstance(what, Mapping):
        return [(str(name), p) for name, p in cast("Mapping[Any, Tensor]", what).items()]
    return [(str(i), p) for i, p in enumerate(what)]
