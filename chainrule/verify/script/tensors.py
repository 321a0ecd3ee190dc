"""Tensors in nested arguments, and a number that tells whether one changed.

Both are asked of every call of a step that is recorded: they cost next to nothing, or the step
takes twice its time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor

_SUMMED = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}
"""What sums of a dtype are taken in."""


def tensors_in(x: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    found: list[Tensor] = []
    _gather((x,), found)
    return found


def _gather(items: Iterable[Any], found: list[Tensor]) -> None:
    for x in items:
        if isinstance(x, Tensor):
            found.append(x)
        elif isinstance(x, tuple | list):
            _gather(cast("Iterable[Any]", x), found)
        elif isinstance(x, dict):
            _gather(cast("dict[Any, Any]", x).values(), found)


def checksum(t: Tensor) -> float | None:
    """A number that changes with the values of a float tensor; None for others."""
    wide = _SUMMED.get(t.dtype)
    if wide is None or t.layout is not torch.strided:
        return None
    total = t.detach().sum(dtype=wide).item()
    return total if total == total else 0.0  # NaN equals nothing
