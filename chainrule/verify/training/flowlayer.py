"""One layer whose gradients are measured, and which of them make up a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chainrule.verify.training.engine import Engine
from chainrule.verify.training.units import common


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


def finer(layers: Sequence[Layer], weights: Sequence[Layer]) -> list[Layer]:
    """The layers of a model, modules with several weights by their weights."""
    keys = {key for layer in layers for key in layer.params}
    own = [w for w in weights if not keys.isdisjoint(w.params)]
    split = {key for w in own for key in w.params}
    return ordered([*own, *[m for m in layers if split.isdisjoint(m.params)]]) if own else []


def ordered(layers: Sequence[Layer]) -> list[Layer]:
    """In the order of the forward pass."""
    return sorted(layers, key=lambda layer: layer.order)


def bias_of(engine: Engine | None, layer: Layer) -> float | None:
    """What the biases of a module are, if next to all are the same."""
    own = [] if engine is None or layer.op else engine.own(layer.what)
    return next((common(engine.array(p)) for name, p in own if engine and name == "bias"), None)
