"""Bucket: parameters that take their steps together, as one flat vector.

A few operations on one long vector cost far less than the same few on every parameter. So the
parameters' arrays become views of one vector, and so does what an optimizer remembers about them. A
graph, a snapshot or the user may still hold a parameter's old array. So the vector is written to
only where reference counts prove that nobody else can see it; else the parameters move to a new
one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any, final

import numpy as np

from chainrule.engine.arrays import operand
from chainrule.engine.dtypes import finfo
from chainrule.engine.graph import tracer, variable
from chainrule.engine.op import Array, Spec
from chainrule.engine.tensors import Tensor
from chainrule.errors import TraceError

BLOCK = 1 << 16
"""Numbers that are updated at a time: the vectors' parts stay in the processor's cache."""


@dataclass(frozen=True)
class Memory:
    """What an optimizer remembers of a parameter under one name.

    `start` is the value of every element at first. Without a `shape` it is as large as the
    parameter; memory of another shape is for buckets of one parameter.
    """

    start: float = 0.0
    shape: tuple[int, ...] | None = None


def together(params: Sequence[Tensor], *, alone: bool) -> list[list[Tensor]]:
    """Parameters that share a bucket: those of one dtype; each large one stands alone, or every.

    A large one gains nothing from company, and alone its gradient need not be copied as a whole.
    """
    groups: dict[Any, list[Tensor]] = {}
    for p in params:
        key = (p.dtype, id(p) if alone or p.size >= BLOCK else None)
        groups.setdefault(key, []).append(p)
    return list(groups.values())


@final
class Bucket:
    """Parameters of one dtype that have taken the same number of steps.

    `steps` is that number. `state` holds, by name, what the optimizer remembers: vectors with an
    element for each number of the parameters, in their order, unless `memory` says otherwise.
    `numbers` are remembered once for all of them. All are tensors, so that `jit` finds them; nobody
    else has them, so they are written to in place.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        memory: Mapping[str, Memory],
        numbers: Mapping[str, float] | None = None,
    ) -> None:
        self.params = list(params)
        self.count = _state_tensor(np.zeros((), np.int64))
        sizes = [p.size for p in params]
        self.ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        self.starts = [end - size for end, size in zip(self.ends, sizes, strict=True)]
        self.dtype = params[0].dtype
        self.memory: dict[str, Memory] = {}
        self.state: dict[str, Tensor] = {}
        self.remember(memory)
        self.numbers = {
            name: _state_tensor(np.full((), value)) for name, value in (numbers or {}).items()
        }
        self._vector: Array | None = None
        self._views: list[Array] = []
        self._alone = 0  # what `_references` counts where nobody else holds them
        self._scratch: Array | None = None

    @property
    def steps(self) -> int:
        """How many steps the parameters have taken."""
        return int(_array_of(self.count))

    @steps.setter
    def steps(self, steps: int) -> None:
        _array_of(self.count)[()] = steps

    def remember(self, memory: Mapping[str, Memory]) -> None:
        """Begin to remember what is not yet remembered; what is not asked for is forgotten."""
        for name in [n for n in self.state if n not in memory]:
            del self.state[name]
        for name, m in memory.items():
            if name not in self.state:
                size = self.ends[-1] if m.shape is None else math.prod(m.shape)
                self.state[name] = _state_tensor(np.full(size, m.start, self.dtype))
        self.memory = dict(memory)

    def number(self, name: str) -> float:
        """The number that is remembered under `name`."""
        return float(_array_of(self.numbers[name]))

    def set_number(self, name: str, value: Any) -> None:
        """Remember a number under `name`."""
        _array_of(self.numbers[name])[()] = float(value)

    def shape(self, name: str, i: int) -> tuple[int, ...]:
        """The shape of what is remembered under `name` about parameter i."""
        shape = self.memory[name].shape
        return self.params[i].shape if shape is None else shape

    def slice(self, name: str, i: int) -> slice:
        """Where in its vector that stands."""
        whole = self.memory[name].shape is None
        return slice(self.starts[i], self.ends[i]) if whole else slice(None)

    def whole_gradient(self) -> Array:
        """The gradient as one vector, which nobody may write to: it may be a parameter's own."""
        gs: list[Any] = [p.grad.value.reshape(-1) for p in self.params if p.grad is not None]
        if len(gs) == 1:
            return np.ascontiguousarray(gs[0], self.dtype)
        if self._scratch is None:
            self._scratch = np.empty(self.ends[-1], self.dtype)
        return np.concatenate(gs, out=self._scratch, casting="same_kind")

    def gradient(self) -> Iterator[tuple[slice, Array]]:
        """The gradient block by block, in arrays that may be written to: where it is, and what."""
        gs: list[Any] = [p.grad.value.reshape(-1) for p in self.params if p.grad is not None]
        end = self.ends[-1]
        if len(gs) > 1:
            if self._scratch is None:
                self._scratch = np.empty(end, self.dtype)
            whole = np.concatenate(gs, out=self._scratch, casting="same_kind")
            for block in [slice(a, a + BLOCK) for a in range(0, end, BLOCK)]:
                yield block, whole[block]
            return
        if self._scratch is None:
            self._scratch = np.empty(min(BLOCK, end), self.dtype)
        for block in [slice(a, min(a + BLOCK, end)) for a in range(0, end, BLOCK)]:
            part = self._scratch[: block.stop - block.start]
            np.copyto(part, gs[0][block], casting="same_kind")
            yield block, part

    def vector(self) -> Array:
        """The parameters as one vector; writing to it changes them, and nothing else."""
        vector = self._vector
        if vector is None or not self._in_place() or self._references() != self._alone:
            vector = self._vector = self._move()
            self._alone = self._references()
        return vector

    def _move(self) -> Array:
        """Give the parameters new arrays, with their values: views of a new vector."""
        vector = np.concatenate([p.value.reshape(-1) for p in self.params])
        self._views = [
            vector[a:b].reshape(p.shape)
            for a, b, p in zip(self.starts, self.ends, self.params, strict=True)
        ]
        for p, view in zip(self.params, self._views, strict=True):
            p.data = variable(view)
        return vector

    def _in_place(self) -> bool:
        """Whether the parameters' arrays still are the views."""
        return all(p.value is v for p, v in zip(self.params, self._views, strict=True))

    def _references(self) -> int:
        """How many hold the views or the vector (which every view of a view holds, too)."""
        return getrefcount(self._vector) + sum([getrefcount(v) for v in self._views])

    def state_of(self, name: str, i: int) -> Array:
        """A copy of what is remembered under `name` about parameter i, in its shape."""
        flat = _array_of(self.state[name])[self.slice(name, i)]
        return flat.reshape(self.shape(name, i)).copy()

    def put(self, name: str, i: int, value: Any) -> None:
        """Remember `value`, of the shape that is remembered, under `name` about parameter i."""
        flat = np.asarray(operand(value)).reshape(-1)
        _array_of(self.state[name])[self.slice(name, i)] = flat

    def take(self, other: Bucket) -> None:
        """Remember what another bucket of the same parameters does."""
        self.steps = other.steps
        self.remember(other.memory)
        for name, vector in other.state.items():
            _array_of(self.state[name])[...] = _array_of(vector)
        for name in other.numbers:
            self.set_number(name, other.number(name))

    def sub(self, indices: Sequence[int]) -> Bucket:
        """A bucket of some of the parameters, with their steps and what is remembered of them."""
        numbers = {name: self.number(name) for name in self.numbers}
        new = Bucket([self.params[i] for i in indices], self.memory, numbers)
        new.steps = self.steps
        for name in self.state:
            for j, i in enumerate(indices):
                new.put(name, j, self.state_of(name, i))
        return new

    def flush(self) -> None:
        """Set to 0 what is too small for its dtype's full precision.

        Moments of gradients that stay 0 decay into that range, where arithmetic is many times
        slower, and never leave it.
        """
        tiny = finfo(self.dtype).smallest_normal
        for t in self.state.values():
            vector = _array_of(t)
            vector[np.abs(vector) < tiny] = 0

    def release(self) -> None:
        """Let go of the common vector: a compiled step gives each parameter an array of its own."""
        self._vector, self._views, self._scratch = None, [], None


def _state_tensor(array: Array) -> Tensor:
    """A tensor of an optimizer's state, also where it is made while a step is traced."""
    t = variable(array)
    if (by := tracer()) is not None:
        by.keep(t)
    return t


def _array_of(t: Tensor) -> Array:
    """The array of a tensor of the state."""
    if type(t.value) is Spec:
        raise TraceError(
            "an optimizer's state is read or rearranged in a function that is compiled, after its "
            "step(): other parameters have gradients there than before. Take one step in it"
        )
    return t.value
