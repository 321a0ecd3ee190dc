"""Layers whose gradients are measured: modules with parameters, and weights applied by themselves.

A function with a list of parameters has layers that are no modules, and so has a module that
multiplies by several parameters of its own. A module with one of them is a layer itself, as all of
PyTorch's are. Modules that the program calls one by one, though it keeps them together
(`for layer in layers: h = layer(h).tanh()`), are one flow of gradients: a `Group`. `Units` are what
an activation made on one whole batch.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.training.facts.names import owners
from chainrule.verify.training.record import op_events
from chainrule.verify.training.record.engine import Engine

ACTIVATIONS = frozenset({"sigmoid", "sigmoid_", "tanh", "tanh_", "relu", "relu_"})
"""Ops whose derivative can be zero, or nearly so."""
_DEAD, _STUCK, _BOTH = 0.9, 0.95, 0.2
"""Shares from which on an activation is dead, is stuck, and is so at both ends."""
_SATURATED = 0.1
"""A unit is saturated where its derivative is below this share of the largest one."""


@dataclass(frozen=True)
class Units:
    """One activation in one forward pass."""

    op: str
    order: int
    """Number of the layer that it was applied to."""
    step: int
    count: int
    """Units: features or channels."""
    samples: int
    """Values of each unit."""
    dead: float
    """Share of units that are 0 on the whole batch (relu)."""
    saturated: float
    """Share of values that are (sigmoid, tanh)."""
    slope: float
    """Mean derivative (sigmoid, tanh)."""
    apart: float = 0.0
    """Share of saturated values that are at the rarer of the two ends (sigmoid, tanh)."""

    def is_dead(self) -> bool:
        """Whether next to none of its units has any value on the batch."""
        return self.dead >= _DEAD

    def is_flat(self) -> bool:
        """Whether it is one or the other: nothing comes back through it."""
        return self.is_dead() or self.is_stuck()

    def is_stuck(self) -> bool:
        """Whether it is saturated at both ends: a gate is shut, or opened, on purpose."""
        return self.saturated >= _STUCK and self.apart >= _BOTH


def measure_units(op: str, y: Array, order: int, step: int) -> Units:
    """What one activation made. Units are along axis 1 of images, along the last axis otherwise."""
    kind = op.rstrip("_")
    axis = 1 if y.ndim == 4 else max(y.ndim - 1, 0)
    count = y.shape[axis] if y.ndim else 1
    samples = y.size // max(count, 1)
    if not samples:
        return Units(kind, order, step, count, samples, 0.0, 0.0, 1.0)
    if kind == "relu":
        others = tuple([i for i in range(y.ndim) if i != axis])
        largest = y.max(others) if others else y
        dead = 1 - np.count_nonzero(largest) / largest.size  # there is nothing below 0
        return Units(kind, order, step, count, samples, dead, 0.0, 1.0)
    slope = y * (1 - y) if kind == "sigmoid" else 1 - y * y
    steepest = 0.25 if kind == "sigmoid" else 1.0
    flat = slope < _SATURATED * steepest
    share = np.count_nonzero(flat) / y.size
    high = np.count_nonzero(flat & (y > (0.5 if kind == "sigmoid" else 0))) / y.size
    apart = min(high, share - high) / share if share else 0.0
    return Units(kind, order, step, count, samples, 0.0, share, float(slope.mean()), apart)


def common_value(bias: Array) -> float | None:
    """The number that next to all elements are; None if there is none."""
    values, counts = np.unique(bias, return_counts=True)
    most = int(counts.argmax()) if bias.size else 0
    return float(values[most]) if bias.size and counts[most] >= _DEAD * bias.size else None


@dataclass(eq=False)
class Layer:
    """A module with parameters of its own, or a weight that is applied by itself."""

    what: Any
    op: str
    """What applies the weight; empty for a module."""
    order: int
    at: Any
    params: tuple[int, ...]
    """Ids of its parameters."""
    arriving: list[float] = field(default_factory=list[float])
    """Norms of gradients of its outputs since the last step."""
    norms: list[float] = field(default_factory=list[float])
    """The same of each step."""
    turns: list[tuple[float, ...]] = field(default_factory=list[tuple[float, ...]])
    """The same, call by call."""
    gradients: list[float] = field(default_factory=list[float])
    sizes: list[float] = field(default_factory=list[float])
    updates: list[float] = field(default_factory=list[float])


def split_by_weight(layers: Sequence[Layer], weights: Sequence[Layer]) -> list[Layer]:
    """The layers of a model, modules with several weights by their weights."""
    keys = {key for layer in layers for key in layer.params}
    own = [w for w in weights if not keys.isdisjoint(w.params)]
    split = {key for w in own for key in w.params}
    return in_order([*own, *[m for m in layers if split.isdisjoint(m.params)]]) if own else []


def in_order(layers: Sequence[Layer]) -> list[Layer]:
    """In the order of the forward pass."""
    return sorted(layers, key=lambda layer: layer.order)


def bias_of(engine: Engine | None, layer: Layer) -> float | None:
    """What the biases of a module are, if next to all are the same."""
    own = [] if engine is None or layer.op else engine.own(layer.what)
    biases = [engine.array(p) for name, p in own if engine and name == "bias"]
    return common_value(biases[0]) if biases else None


@dataclass(frozen=True)
class Row:
    """One layer; each tuple has a number for each step."""

    name: str
    kind: str
    order: int
    at: Any
    arriving: tuple[float, ...]
    gradients: tuple[float, ...]
    sizes: tuple[float, ...]
    updates: tuple[float, ...]
    turns: tuple[tuple[float, ...], ...] = ()
    """For each step: norms of the gradients that arrive at its calls, the last call first."""
    bias: float | None = None
    """What next to all elements of its bias are; None if it has none, or if they differ."""

    @property
    def numbers(self) -> tuple[str, str, str, str]:
        """Gradient, parameter, their ratio and the update's, in the last step, to read."""
        g = self.gradients[-1] if self.gradients else -1.0
        p = self.sizes[-1] if self.sizes else 0.0
        u = self.updates[-1] if self.updates else -1.0
        return (
            f"{g:.2e}" if g >= 0 else "none",
            f"{p:.2e}",
            f"{g / p:.1e}" if p and g >= 0 else "-",
            f"{u / p:.1e}" if p and u >= 0 else "-",
        )


ADDS = frozenset({"add", "__add__", "__radd__"})
WEIGHTED = ADDS | {"linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "einsum", "conv1d",
                   "conv2d"}  # fmt: skip
"""Ops that make the output of a layer; what is added to it is its bias."""


@final
class Weights:
    """Which weights are layers of their own."""

    def __init__(self) -> None:
        self._met: set[int] = set()
        self._owned: set[int] = set()
        """Parameters of modules that are layers."""

    def entered(self, e: op_events.Entered) -> None:
        """A module is being called: what it is made of is known before that."""
        if id(e.module) in self._met:
            return
        self._met.add(id(e.module))
        own = [p for _, p in e.engine.own(e.module)]
        several = len([p for p in own if len(p.shape) > 1]) > 1
        if not several or type(e.module).__module__.startswith("torch.nn."):
            self._owned.update(map(id, own))

    def is_layer(self, e: op_events.Applied) -> bool:
        """Whether what is applied is a layer of its own."""
        return id(e.param) not in self._owned and len(e.param.shape) > 1


_LEAST = 3
"""Modules that make a flow."""


@dataclass(frozen=True)
class Group:
    """Modules that something holds side by side."""

    name: str
    """The class of what holds them."""
    modules: Mapping[int, Any]
    """By id."""
    labels: Mapping[int, str]
    """By id: what they are called there."""


def group_modules(modules: Sequence[Any]) -> list[Group]:
    """Lists, and modules, that hold at least three of the modules. Each is in one group only, the
    largest."""
    ids = {id(m) for m in modules} if len(modules) >= _LEAST else set[int]()
    groups: list[Group] = []
    for holder, held in sorted(_holders(modules) if ids else (), key=lambda row: -len(row[1])):
        found = {id(m): (label, m) for label, m in held.items() if id(m) in ids}
        if len(found) >= _LEAST:
            labels = {key: label for key, (label, _) in found.items()}
            group = {key: m for key, (_, m) in found.items()}
            groups.append(Group(type(holder).__name__, group, labels))
            ids -= found.keys()
    return groups


def _holders(modules: Sequence[Any]) -> Iterator[tuple[object, dict[str, Any]]]:
    """Lists and modules that have some of the modules, and all that they have by its name."""
    for r in gc.get_referrers(*modules):
        if type(r) in (list, tuple) and r is not modules:
            yield r, {str(i): m for i, m in enumerate(r)}
    for owner in owners(modules, "_modules"):
        yield owner, dict(owner._modules)
