"""Whether a tensor is finite, what its numbers are like, and which op is to blame if it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, final

from chainrule.verify.place import Place


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


_PLAIN = 2.0**24
"""Up to here no scale makes gradients in float32 infinite that were not large."""


@dataclass(frozen=True)
class Blame:
    """An op at a line, and what it made of what."""

    op: str
    place: Place
    phase: str
    made: str


def steady(blames: Sequence[Blame | None], steps: int, scale: float) -> Blame | None:
    """The op that is to blame for each of the last steps; None if there is no such one, or if the
    scale is so large that it may be."""
    last = blames[-steps:]
    known = {(b.op, b.place, b.phase) for b in last if b is not None}
    same = len(last) == steps and None not in last and len(known) == 1
    return last[-1] if same and scale <= _PLAIN else None
