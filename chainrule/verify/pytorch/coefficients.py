"""A function of many numbers, seen along one fixed direction for each of its arguments.

f(p_1, ..., p_n) becomes F(c) = f(p_1 + c_1 d_1, ..., p_n + c_n d_n) at c = 0: dF/dc_k is the inner
product of the k-th gradient with d_k, so that one vector of n numbers stands for all parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from chainrule.verify.pytorch.convert import is_float
from chainrule.verify.pytorch.flat import Call

NAME = "parameters"


def coefficients_call(call: Call, moved: Sequence[int], *, each: int = 1, name: str = NAME) -> Call:
    """`call` as a function of `each` coefficients for each of its arguments `moved`.

    Directions are random, as large as what they are added to, and made anew at each run.
    """
    kept = [x.detach() if isinstance(x, Tensor) else x for x in call.args]
    sizes = [_size(kept[i]) for i in moved]
    dtype = kept[moved[0]].dtype

    held: Any = call.hold

    def moved_by(c: Tensor) -> list[Any]:
        args = [x.to(_wider(x, c)) if is_float(x) else x for x in kept]
        for k, (i, size) in enumerate(zip(moved, sizes, strict=True)):
            x, own = args[i], c[k * each : (k + 1) * each]
            step = own.to(x.dtype) @ _directions(x, each, k, size)
            args[i] = x + step.reshape(x.shape)
        return args

    def hold(xs: Sequence[Any], then: Callable[[list[Tensor]], Any]) -> Any:
        return held(moved_by(xs[0]), then)

    real = torch.float32 if dtype == torch.complex64 else dtype
    c = torch.zeros(len(moved) * each, dtype=torch.float64 if real.is_complex else real)

    def run(xs: Sequence[Any]) -> list[Tensor]:
        return call.run(moved_by(xs[0]))

    return replace(
        call,
        run=run,
        names=(name,),
        args=(c.requires_grad_(),),
        fixed="one for each",
        hold=None if held is None else hold,
    )


def _wider(x: Tensor, c: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, c.dtype)


def _size(x: Tensor) -> float:
    """Root mean square, 1 for what is zero."""
    return float(x.abs().square().mean().sqrt()) or 1.0


def _directions(like: Tensor, count: int, number: int, size: float) -> Tensor:
    """`(count, like.numel())`"""
    own = torch.Generator().manual_seed(number)
    noise = torch.randn((count, like.numel()), generator=own, dtype=torch.float32)
    return noise.to(like.dtype) * size
