"""Layers whose gradients are measured: modules with parameters, and weights applied by themselves.

A function with a list of parameters has layers that are no modules, and so has a module that
multiplies by several parameters of its own. A module with one of them is a layer itself, as all of
PyTorch's are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.verify.training.facts.units import common_value
from chainrule.verify.training.record import events
from chainrule.verify.training.record.engine import Engine


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

    def entered(self, e: events.Entered) -> None:
        """A module is being called: what it is made of is known before that."""
        if id(e.module) in self._met:
            return
        self._met.add(id(e.module))
        own = [p for _, p in e.engine.own(e.module)]
        several = len([p for p in own if len(p.shape) > 1]) > 1
        if not several or type(e.module).__module__.startswith("torch.nn."):
            self._owned.update(map(id, own))

    def is_layer(self, e: events.Applied) -> bool:
        """Whether what is applied is a layer of its own."""
        return id(e.param) not in self._owned and len(e.param.shape) > 1
