"""Cotangents handed to PyTorch's engine just as they are, strides included.

`torch.autograd.grad` takes cotangents, too, but loads a computer algebra system (two seconds) to
compare their shapes. A scalar whose backward is the cotangents does without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class _Seed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gs: Sequence[Tensor], *ys: Tensor) -> Tensor:
        ctx.gs = gs
        ctx.set_materialize_grads(False)
        return torch.zeros((), dtype=torch.float64)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return (None, *ctx.gs)


_seed: Any = _Seed
_apply: Callable[..., Tensor] = _seed.apply


def gradients(
    ys: Sequence[Tensor],
    gs: Sequence[Tensor],
    wrt: Sequence[Tensor],
    *,
    create_graph: bool = False,
    retain_graph: bool = False,
) -> list[Tensor | None]:
    """x_bars of `wrt` for the cotangents gs of ys; None where no path leads to an x.

    Outputs without a graph are left out.
    """
    seed = _seed_of(ys, gs)
    if seed is None or not wrt:
        return [None] * len(wrt)
    return list(
        torch.autograd.grad(
            seed,
            list(wrt),
            create_graph=create_graph,
            retain_graph=retain_graph or create_graph,
            allow_unused=True,
        )
    )


def accumulate(
    ys: Sequence[Tensor], gs: Sequence[Tensor], wrt: Sequence[Tensor]
) -> list[Tensor | None]:
    """The same by `backward()`, left in the leaves `wrt`: what a reentrant checkpoint asks for."""
    seed = _seed_of(ys, gs)
    for x in wrt:
        x.grad = None
    if seed is not None:
        torch.autograd.backward(seed)
    return [x.grad for x in wrt]


def _seed_of(ys: Sequence[Tensor], gs: Sequence[Tensor]) -> Tensor | None:
    """A number whose backward hands the cotangents on; None if no output has a graph."""
    pairs = [(y, g.to(y.device)) for y, g in zip(ys, gs, strict=True) if y.requires_grad]
    for y, g in pairs:
        if y.shape != g.shape:
            raise RuntimeError(f"a cotangent of shape {tuple(g.shape)} for {tuple(y.shape)}")
    if not pairs:
        return None
    with torch.enable_grad():
        return _apply([g for _, g in pairs], *[y for y, _ in pairs])
