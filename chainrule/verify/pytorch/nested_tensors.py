"""Tensors in nested arguments, and a number that tells whether one changed.

Both are asked of every call of a step that is observed: they cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor

_SUMMED: dict[torch.dtype, torch.dtype | None] = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: None,
    torch.float64: None,
}
"""What sums of a dtype are taken in, None for the dtype itself."""


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


def total(t: Tensor) -> float | None:
    """The sum of a strided float tensor, which tells whether it is finite, and changes with its
    values; None for others."""
    dtype = t.dtype
    if dtype not in _SUMMED or t.layout is not torch.strided or t.is_meta:
        return None
    return t.detach().sum(dtype=_SUMMED[dtype]).item()


def checksum(t: Tensor) -> float | None:
    """`total`, comparable: NaN, which equals nothing, is 0."""
    return comparable(total(t))


def comparable(found: float | None) -> float | None:
    """A total to be compared with others."""
    return found if found is None or found == found else 0.0
