"""Gradients as flat vectors, weighted, and the tree over the micro-batches of one worker.

Notation: P parameters. A micro-batch of weight w with gradients g adds w * g, and w itself: the
average is the sum of the first over the sum of the second, for shards of any sizes.

Sums of blocks of micro-batches are kept on a stack, as a binary counter keeps its ones: two blocks
of one size become a block of twice that size. So micro-batches are added in a fixed binary tree,
and a worker that has an aligned block of them, as many as a power of two, holds one of its nodes.

The first micro-batch of a step goes into memory that the other workers see, where there is such
memory: it becomes the lowest block, into which the others are added. If it is the only one, its
weight waits for the exchange, which reads the vectors anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from sys import getrefcount
from typing import Any, cast, final

import numpy as np

from chainrule.engine.graph import variable
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.nn.base.module import Module

FACTS = 2
"""Float64 numbers before one for each parameter: the weight, and the loss times the weight."""
ALIGNMENT = 64
Allocate = Callable[[int], Array]
"""So many bytes of memory."""


@final
@dataclass
class Sums:
    """A weighted sum of gradients: facts, and a vector for each dtype, to multiply by `scale`."""

    facts: Array
    vectors: list[Array]
    scale: float = 1.0

    @property
    def arrays(self) -> list[Array]:
        """All numbers: the facts first."""
        return [self.facts, *self.vectors]

    def add(self, upper: Sums) -> None:
        """Add the sum of the sibling block; both have their weights in them."""
        with np.errstate(all="ignore"):
            for a, b in zip(self.arrays, upper.arrays, strict=True):
                np.add(a, b, out=a)


def wide(dtype: Any) -> np.dtype[Any]:
    """The dtype that gradients are summed in: halves in float32, complex as pairs of reals."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


@final
class Layout:
    """Where the gradients of parameters, by name, stand in one vector for each dtype.

    The vectors of one micro-batch are parts of one block of memory. `allocate` makes that of the
    first micro-batch of a step.
    """

    def __init__(self, named: Mapping[str, Tensor], allocate: Allocate | None = None) -> None:
        self.named = dict(named)
        ends: dict[np.dtype[Any], int] = {}
        self.places: list[tuple[np.dtype[Any], slice]] = []
        for p in self.named.values():
            dtype = wide(p.dtype)
            start = ends.get(dtype, 0)
            ends[dtype] = start + p.size * (2 if p.dtype.kind == "c" else 1)
            self.places.append((dtype, slice(start, ends[dtype])))
        self.sizes = ends
        self._first = _Blocks(allocate or _private)
        self._others = _Blocks(_private)

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """Which tensors these are."""
        return tuple([id(p) for p in self.named.values()])

    def take(self, weight: float, loss: float, *, first: bool, alone: bool) -> Sums:
        """The weighted gradients of one micro-batch; the parameters have none afterwards.

        What weighs 0 adds nothing, whatever its gradients are. `first`: it is the first one of a
        step; `alone`: the only one, so that its weight can wait.
        """
        facts = np.zeros(FACTS + len(self.named))
        vectors = self._vectors(self._first if first else self._others)
        factor = 1.0 if alone else weight
        for i, (p, (dtype, place)) in enumerate(zip(self.named.values(), self.places, strict=True)):
            g, out = p.grad, vectors[dtype][place]
            if g is None or weight == 0:
                out[...] = 0
            else:
                facts[FACTS + i] = 1
                _scaled(_real(g.value), factor, out)
            p.grad = None
        if weight:
            facts[:FACTS] = weight, weight * loss
        return Sums(facts, list(vectors.values()), weight if alone and weight else 1.0)

    def put(self, average: Sums) -> None:
        """Give the parameters their gradients. Who has none in any micro-batch gets none."""
        vectors = dict(zip(self.sizes, average.vectors, strict=True))
        for i, (p, (dtype, place)) in enumerate(zip(self.named.values(), self.places, strict=True)):
            if average.facts[FACTS + i]:
                p.grad = variable(_like(vectors[dtype][place], p))

    def _vectors(self, blocks: _Blocks) -> dict[np.dtype[Any], Array]:
        ends: dict[np.dtype[Any], int] = {}
        end = 0
        for dtype, size in self.sizes.items():
            end = -(-end // ALIGNMENT) * ALIGNMENT + size * dtype.itemsize
            ends[dtype] = end
        block = blocks.free(end)
        return {
            dtype: block[ends[dtype] - size * dtype.itemsize : ends[dtype]].view(dtype)
            for dtype, size in self.sizes.items()
        }


@final
class _Blocks:
    """Blocks of memory of one size, to use again."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self._memory: list[Array] = []

    def free(self, size: int) -> Array:
        """A block that nobody else sees: a gradient may still be a view of an older one."""
        memory = self._memory
        for i in range(len(memory)):
            if getrefcount(memory[i]) == _ALONE:
                return memory[i]
        memory.append(self._allocate(size))
        return memory[-1]


def _private(size: int) -> Array:
    return np.empty(size, np.uint8)


def _scaled(g: Array, factor: float, out: Array) -> None:
    if factor == 1:
        np.copyto(out, g, casting="same_kind")
        return
    with np.errstate(all="ignore"):  # an infinite gradient stays one
        np.multiply(g, factor, out=out, dtype=out.dtype, casting="same_kind")


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
            sums = _added(self._blocks.pop()[1], sums)
            size *= 2
        self._blocks.append((size, sums))

    def total(self) -> Sums:
        """The sum of all; the stack is empty afterwards."""
        _, sums = self._blocks.pop()
        while self._blocks:
            sums = _added(self._blocks.pop()[1], sums)
        self.count = 0
        return sums


def _added(lower: Sums, upper: Sums) -> Sums:
    lower.add(upper)
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
