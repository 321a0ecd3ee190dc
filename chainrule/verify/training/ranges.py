"""Whether a tensor is finite, and what its numbers are like: without writing to anything."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, final


@final
class Ranges:
    """Questions about PyTorch's tensors, as cheap as possible for the answer "finite"."""

    def __init__(self) -> None:
        self._torch: Any = None

    def finite(self, x: Any) -> bool:
        """Whether all elements are; True for tensors without floats or without numbers."""
        torch = self._torch = self._torch or import_module("torch")
        real = x.is_floating_point()
        if not (real or x.is_complex()) or x.layout is not torch.strided or x.is_meta:
            return True
        x = x.detach()
        if real:
            wide = torch.float32 if x.dtype.itemsize < 4 else None
            if math.isfinite(x.sum(dtype=wide).item()):
                return True
        return bool(torch.isfinite(x).all())  # a sum of finite numbers may overflow

    def has_nan(self, x: Any) -> bool:
        """Whether any element is NaN."""
        torch = self._torch = self._torch or import_module("torch")
        if not x.is_floating_point() and not x.is_complex():
            return False
        with torch.no_grad(), torch._C.DisableTorchFunction():
            return bool(torch.isnan(x).any())


def describe(what: str, x: Any) -> str:
    """Shape, dtype, range of the finite numbers, how many are NaN or infinite.

    >>> import torch
    >>> describe("x", torch.tensor([1.0, float("nan")]))
    'x, float32 (2,): 1 of 2 are NaN, 0 infinite, the others from 1 to 1'
    """
    torch: Any = import_module("torch")
    with torch.no_grad(), torch._C.DisableTorchFunction():
        kind = f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"
        if x.is_complex():
            x = torch.view_as_real(x.detach().resolve_conj())
        x = x.detach().double()
        good = x[torch.isfinite(x)]
        nan, infinite = int(torch.isnan(x).sum()), int(torch.isinf(x).sum())
        span = f"from {float(good.min()):.4g} to {float(good.max()):.4g}" if good.numel() else ""
    if not nan + infinite:
        return f"{what}, {kind}: {span}" if span else f"{what}, {kind}"
    others = f", the others {span}" if span else ""
    return f"{what}, {kind}: {nan} of {x.numel()} are NaN, {infinite} infinite{others}"
