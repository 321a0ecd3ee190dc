"""The graph of a chainrule loss, as it is before it runs back."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from chainrule.verify.training.record.scale import Nodes, Scale, Way, counts_of


@final
class NativeNodes(Nodes):
    """Nodes of chainrule's."""

    def name(self, node: Any) -> str:
        """That of its op; a sum divided by the number of its elements is a mean."""
        below = self.below(node) if node.name == "div" else []
        is_sum = bool(below) and below[0].name == "sum"
        return "mean" if is_sum and self.number(node) == _count(below[0]) else node.name

    def below(self, node: Any) -> list[Any]:
        """Those that need a gradient."""
        return [n for n in node.inputs if n is not None and n.needs]

    def number(self, node: Any) -> float | None:
        """An argument that is no node, and one number."""
        for n, x in zip(node.inputs, node.xs, strict=True):
            value: Any = x
            if n is None and isinstance(x, np.ndarray | np.generic | int | float):
                return float(np.asarray(value).item()) or None if np.size(value) == 1 else None
        return None

    def reduced(self, node: Any, way: Way) -> Scale:
        """By the name of its op."""
        reduction = name if (name := self.name(node)) in ("sum", "mean") else ""
        counts = counts_of(_shape_below(node)) if reduction == "sum" else frozenset[float]()
        return Scale(abs(way.divisor), reduction, way.divided, counts=counts)


def _count(node: Any) -> float:
    """How many elements a sum has added up for each element of its result."""
    return math.prod(_shape_below(node)) / max(math.prod(node.shape), 1)


def _shape_below(node: Any) -> tuple[int, ...]:
    """The shape of what a sum has added up."""
    (inner,) = node.inputs
    assert inner is not None
    return inner.shape
