"""Events of modules and ops: what a model was called with, and what ops computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.verify.training.facts.holders import tensors
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.user_frames import Line


class Entered(NamedTuple):
    """A module is being called: from outside of all modules, or within another one for the first
    time (once with a graph, once without). All calls are told of while the bus is attentive."""

    engine: Engine
    module: Any
    depth: int
    """0 is a call from outside of all modules."""
    recording: bool
    """Whether a graph is recorded."""
    at: Line | None
    inputs: tuple[Any, ...]


class Left(NamedTuple):
    """A call from outside of all modules is over."""

    engine: Engine
    module: Any
    recording: bool
    """Whether a graph is recorded now."""
    at: Line | None
    output: Any


class Passed(NamedTuple):
    """Any module has made its output, with a graph."""

    engine: Engine
    module: Any
    depth: int
    at: Line | None
    output: Any


class OpRan(NamedTuple):
    """An op ran on tensors, outside of backward passes and of optimizers.

    A step has many of them, and most are ordinary: their results have a graph and are finite in
    float32 or float64, and their rules make finite gradients of finite ones. Of these nothing is
    told, unless the bus is attentive. What few ask for is made when it is asked for.
    """

    engine: Engine
    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    y: Any
    outputs: Sequence[Any]
    """Tensors in `y`."""
    total: Callable[[int], float | None]
    """The sum of an output, None if it has none."""
    since: int
    """Serial number of the first node that it made, if it made any."""

    @property
    def inputs(self) -> Sequence[Any]:
        """Tensors in `args`."""
        return tensors(self.args)

    @property
    def linked(self) -> bool:
        """Whether any output has a graph."""
        return any(y.requires_grad for y in self.outputs)


class Called(NamedTuple):
    """An op on sequences ran, with a graph: attention, a recurrence, or a table of vectors."""

    engine: Engine
    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    y: Any


class Written(NamedTuple):
    """A value without a graph was changed in place, outside of optimizers."""

    address: int
    """Where it lies."""


class Coincided(NamedTuple):
    """A tensor was copied to, or taken off, one that lies in the very same memory, without a
    graph."""

    name: str
    address: int
    at: Line | None


class Activated(NamedTuple):
    """A relu was applied to `x` and made `y`, with a graph."""

    engine: Engine
    name: str
    x: Any
    y: Any


class Compared(NamedTuple):
    """A loss, or a difference, of two values whose result has more elements than either."""

    name: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    result: tuple[int, ...]
    """The shape that both were broadcast to."""
    linked: tuple[bool, bool]
    """Which of the two have a graph."""
    sides: tuple[Any, Any]
    y: Any

    @classmethod
    def of(cls, name: str, a: Any, b: Any, y: Any = None) -> Compared | None:
        """The event; None if the result has no more elements than one of the two."""
        shapes = tuple(a.shape), tuple(b.shape)
        both = np.broadcast_shapes(*shapes)
        if math.prod(both) <= max(map(math.prod, shapes)):
            return None
        return cls(name, shapes, both, (a.requires_grad, b.requires_grad), (a, b), y)
