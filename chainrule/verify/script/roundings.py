"""How coarse the numbers of PyTorch's dtypes are, as a tape keeps it of each result."""

from __future__ import annotations

import torch

from chainrule.verify.script.entries import Entry

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_EPS = {dtype: torch.finfo(dtype).eps for dtype in (*_FLOATS, torch.complex64, torch.complex128)}
_COARSE = 0.125
"""Rounding of what has less than 16 bits."""


def graded(entry: Entry, slot: int, dtype: torch.dtype) -> None:
    """How coarse the numbers of a result are; whole ones have no derivative."""
    eps = _EPS.get(dtype)
    if eps is None and (dtype.is_floating_point or dtype.is_complex):
        eps = _COARSE
    if eps is not None:
        entry.is_float, entry.eps = True, max(entry.eps, eps)
    else:
        entry.whole += (slot,)
