"""Units of an activation: how many are saturated, how many are dead, on one whole batch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

ACTIVATIONS = frozenset({"sigmoid", "sigmoid_", "tanh", "tanh_", "relu", "relu_"})
"""Ops whose derivative can be zero, or nearly so."""
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


def measured(op: str, y: Any, order: int, step: int) -> Units:
    """What one activation made. Units are along axis 1 of images, along the last axis otherwise."""
    torch: Any = import_module("torch")
    kind = op.rstrip("_")
    with torch._C.DisableTorchFunction():
        y = y.detach()
        axis = 1 if y.dim() == 4 else max(y.dim() - 1, 0)
        count = int(y.shape[axis]) if y.dim() else 1
        samples = int(y.numel()) // max(count, 1)
        if kind == "relu":
            others = [i for i in range(y.dim()) if i != axis]
            largest = y.amax(others) if others and samples else y
            alive = int(torch.count_nonzero(largest))  # there is nothing below 0
            dead = 1 - alive / max(largest.numel(), 1) if samples else 0.0
            return Units(kind, order, step, count, samples, dead, 0.0, 1.0)
        y = y.float()
        slope = y * (1 - y) if kind == "sigmoid" else 1 - y * y
        steepest = 0.25 if kind == "sigmoid" else 1.0
        share = float((slope < _SATURATED * steepest).float().mean())
        return Units(kind, order, step, count, samples, 0.0, share, float(slope.mean()))
