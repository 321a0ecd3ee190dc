"""Tensors in nested arguments, and a number that tells whether one changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor


def tensors_in(x: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(cast("dict[Any, Any]", x).values())
    if isinstance(x, tuple | list):
        return [t for i in cast("Sequence[Any]", x) for t in tensors_in(i)]
    return []


def checksum(t: Tensor) -> float | None:
    """A number that changes with the values of a float tensor; None for others."""
    if not t.is_floating_point() or t.layout is not torch.strided or not t.numel():
        return None
    wide = torch.float32 if t.dtype.itemsize < 4 else None
    total = float(t.detach().sum(dtype=wide))
    return total if total == total else 0.0  # NaN equals nothing
