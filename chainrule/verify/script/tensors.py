"""Tensors in nested arguments, a number that tells whether one changed, the user's stack."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CodeType
from typing import Any, cast

import torch
from torch import Tensor

Frames = tuple[tuple[CodeType, int], ...]
"""Code and line of each frame, the innermost first."""

_DEEP = 40
"""Frames that are kept of a stack."""
_OWN = "chainrule/verify/"


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


def frames() -> Frames:
    """The stack outside of the verifier."""
    found: list[tuple[CodeType, int]] = []
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and len(found) < _DEEP:
        if _OWN not in frame.f_code.co_filename:
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)
