"""A function of many numbers, seen along one fixed direction for each of its arguments.

f(p_1, ..., p_n) becomes F(c) = f(p_1 + c_1 d_1, ..., p_n + c_n d_n) at c = 0: dF/dc_k is the inner
product of the k-th gradient with d_k, so that one vector of n numbers stands for all parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from chainrule.verify.pytorch.calls import Call
from chainrule.verify.pytorch.convert import is_float

NAME = "parameters"


def coefficients_call(call: Call) -> Call:
    """`call` as a function of one coefficient for each argument that requires a gradient.

    Directions are random, as large as what they are added to, and made anew at each run.
    """
    moved = [i for i, x in enumerate(call.args) if is_float(x) and x.requires_grad]
    kept = [x.detach() if isinstance(x, Tensor) else x for x in call.args]
    sizes = [_size(kept[i]) for i in moved]
    dtype = kept[moved[0]].dtype

    def run(xs: Sequence[Any]) -> list[Tensor]:
        (c,) = xs
        args = [x.to(_wider(x, c)) if is_float(x) else x for x in kept]
        for k, i in enumerate(moved):
            args[i] = args[i] + c[k].to(args[i].dtype) * _direction(args[i], k, sizes[k])
        return call.run(args)

    c = torch.zeros(len(moved), dtype=torch.float32 if dtype.is_complex else dtype)
    return replace(call, run=run, names=(NAME,), args=(c.requires_grad_(),), fixed="one for each")


def _wider(x: Tensor, c: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, c.dtype)


def _size(x: Tensor) -> float:
    """Root mean square, 1 for what is zero."""
    return float(x.abs().square().mean().sqrt()) or 1.0


def _direction(like: Tensor, number: int, size: float) -> Tensor:
    own = torch.Generator().manual_seed(number)
    noise = torch.randn(like.shape, generator=own, dtype=torch.float32)
    return noise.to(like.dtype) * size
