"""Units of an activation: how many are saturated, how many are dead, on one whole batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chainrule.engine.op import Array

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


def measured(op: str, y: Array, order: int, step: int) -> Units:
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


def common(bias: Array) -> float | None:
    """The number that next to all elements are; None if there is none."""
    values, counts = np.unique(bias, return_counts=True)
    most = int(counts.argmax()) if bias.size else 0
    return float(values[most]) if bias.size and counts[most] >= _DEAD * bias.size else None
