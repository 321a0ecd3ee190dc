"""Composite functions of PyTorch's, in terms of simpler ones.

A backward that was written by hand is wrong in one of the paths inside `softmax` or `layer_norm`,
so that a forward which calls them is traced by their definitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as fn
from torch import Tensor

_Function = Callable[..., Any]


def definition(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], Any] | None:
    """The call written out, None if it is primitive or used in a way that is not written here."""
    try:
        rule = _RULES.get(func)
    except TypeError:  # not hashable
        return None
    if rule is None:
        return None
    return lambda: rule(*args, **kwargs)


def _softmax(input: Tensor, dim: int | None = None, *_: Any, **__: Any) -> Tensor:
    axis = -1 if dim is None else dim
    e = torch.exp(input - _fixed(input).amax(axis, keepdim=True))
    return e / e.sum(axis, keepdim=True)


def _log_softmax(input: Tensor, dim: int | None = None, *_: Any, **__: Any) -> Tensor:
    axis = -1 if dim is None else dim
    moved = input - _fixed(input).amax(axis, keepdim=True)
    return moved - torch.log(torch.exp(moved).sum(axis, keepdim=True))


def _fixed(x: Tensor) -> Tensor:
    """x without a graph: what is only there against overflow has no share in the gradient."""
    with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
        return x.detach()


def _layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    axes = tuple(range(-count, 0))
    moved = input - input.mean(axes, keepdim=True)
    y = moved * torch.rsqrt((moved * moved).mean(axes, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    small = torch.finfo(input.dtype).eps if eps is None else eps
    y = input * torch.rsqrt((input * input).mean(axes, keepdim=True) + small)
    return y if weight is None else y * weight


def _gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (input + 0.044715 * input * input * input)
        return 0.5 * input * (1 + torch.tanh(inner))
    return input * (0.5 * (1 + torch.erf(input * math.sqrt(0.5))))


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y = input @ weight.mT if weight.dim() > 1 else input @ weight
    return y if bias is None else y + bias


def _addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    product = mat1 @ mat2
    return (input if beta == 1 else beta * input) + (product if alpha == 1 else alpha * product)


def _var(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **kwargs: Any
) -> Tensor:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = tuple(range(input.dim())) if dim is None else dim
    moved = input - input.mean(axes, keepdim=True)
    count = input.numel() / max(input.sum(axes).numel(), 1)
    correction = kwargs.get("correction")
    correction = (0 if unbiased is False else 1) if correction is None else correction
    squares = (moved * moved).sum(axes, keepdim=keepdim or kwargs.get("keepdim", False))
    return squares / (count - correction)


def _std(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return torch.sqrt(_var(input, *args, **kwargs))


def _silu(input: Tensor, inplace: bool = False) -> Tensor:
    return input * torch.sigmoid(input)


def _mse(input: Tensor, target: Tensor, *_: Any, reduction: str = "mean", **__: Any) -> Tensor:
    d = input - target
    return _reduced(d * d, reduction)


def _reduced(x: Tensor, reduction: str) -> Tensor:
    return x.mean() if reduction == "mean" else x.sum() if reduction == "sum" else x


# fmt: off
_RULES: dict[Any, _Function] = {
    fn.softmax: _softmax, torch.softmax: _softmax, Tensor.softmax: _softmax,
    fn.log_softmax: _log_softmax, torch.log_softmax: _log_softmax, Tensor.log_softmax: _log_softmax,
    fn.layer_norm: _layer_norm, torch.layer_norm: _layer_norm,
    fn.rms_norm: _rms_norm, torch.rms_norm: _rms_norm,
    fn.gelu: _gelu, fn.silu: _silu, fn.linear: _linear, fn.mse_loss: _mse,
    torch.addmm: _addmm, Tensor.addmm: _addmm,
    torch.var: _var, Tensor.var: _var, torch.std: _std, Tensor.std: _std,
}
# fmt: on
