"""What the graph of a chainrule loss tells before it runs back: how the loss was scaled.

A mean is a sum that is divided by the number of its elements; what is done to the loss after that
is what an accumulation of gradients depends on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from chainrule.engine.node import Node
from chainrule.verify.training.record.scale import Scale, common_scale, counts_of

_SUMS = ("add", "sub", "neg")
_DEEP = 12
"""Ops that are looked through."""


def scale_of(root: Any, scaler: float | None = None) -> Scale | None:
    """How a loss was scaled after it was reduced, or None if its terms differ in that.

    `scaler`: the factor that a gradient scaler multiplied it by, which does not count.
    """
    if root.node is None:
        return None
    return common_scale(list(_terms(root.node, 1.0, False, scaler, 0)))


def _terms(
    node: Node, divisor: float, divided: bool, scaler: float | None, depth: int
) -> Iterator[Scale]:
    """Go through constant factors and sums of terms to what was reduced."""
    below = [n for n in node.inputs if n is not None and n.needs]
    if depth < _DEEP and node.name in _SUMS and below:
        for n in below:
            yield from _terms(n, divisor, divided, scaler, depth + 1)
        return
    number = _number(node) if len(below) == 1 else None
    if number is None or depth >= _DEEP:
        reduction = node.name if node.name in ("sum", "mean") else ""
        counts = counts_of(_summed(node)) if reduction == "sum" else frozenset[float]()
        yield Scale(abs(divisor), reduction, divided, counts=counts)
    elif node.name == "div" and below[0].name == "sum" and number == _count(below[0]):
        yield Scale(abs(divisor), "mean", divided)
    elif node.name == "div":
        yield from _terms(below[0], divisor * number, True, scaler, depth + 1)
    elif scaler is not None and abs(number - scaler) <= 1e-6 * scaler:
        yield from _terms(below[0], divisor, divided, None, depth + 1)
    else:
        yield from _terms(below[0], divisor / number, divided, scaler, depth + 1)


def _number(node: Node) -> float | None:
    """The constant that the one argument is multiplied or divided by; None if it is none."""
    if node.name not in ("mul", "div"):
        return None
    for n, x in zip(node.inputs, node.xs, strict=True):
        if n is None and np.size(x) == 1 and isinstance(x, np.ndarray | np.generic | int | float):
            return float(np.asarray(x).item()) or None
    return None


def _count(node: Node) -> float:
    """How many elements a sum has added up for each element of its result."""
    return math.prod(_summed(node)) / max(math.prod(node.shape), 1)


def _summed(node: Node) -> tuple[int, ...]:
    """The shape of what a sum has added up."""
    (inner,) = node.inputs
    assert inner is not None
    return inner.shape
