"""Clipping: gradients that are too long together are shortened together, or each element alone.

Those that a `GradScaler` has scaled and not yet unscaled are refused: their length means nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any
from weakref import WeakSet

import numpy as np

from chainrule.engine.graph import tracer, variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, GradientError, TraceError
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import matmul
from chainrule.ops.indexing.selection import clip, where
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import astype, reshape

scalers: WeakSet[Any] = WeakSet()
"""Every `GradScaler`: each is asked for parameters that are `still_scaled`."""


def _check_unscaled(what: str, parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    """The parameters as a list; raises if a gradient among them is still scaled."""
    every = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for scaler in list(scalers):
        scaled: Sequence[Tensor] = scaler.still_scaled(every)
        if scaled:
            raise GradientError(
                f"{what}: {len(scaled)} of {len(every)} gradients are still multiplied by the "
                f"scale of a GradScaler ({scaler.get_scale():g}): call scaler.unscale_(optimizer) "
                "first"
            )
    return every


def clip_grad_value(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit each element of all gradients to [-clip_value, clip_value]; NaN stays NaN.

    Parameters without a gradient are left out. Raises `GradientError` if gradients are still scaled
    by a `GradScaler`.

    >>> w = cr.tensor([3.0, 0.1], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> optim.clip_grad_value(w, 1.0)
    >>> w.grad
    tensor([1. , 0.2], dtype=float32)
    """
    if not clip_value >= 0:
        raise ConfigError(f"clip_grad_value: clip_value is at least 0, not {clip_value}")
    for p in _check_unscaled("clip_grad_value", parameters):
        if p.grad is not None:
            p.grad = clip(p.grad.detach(), -clip_value, clip_value)


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> float:
    """Scale all gradients by max_norm / (total + 1e-6) where that is below 1; return the total.

    The total is the norm of order `norm_type` (inf for the largest element) of all gradients as one
    vector, as it was before. Parameters without a gradient are left out. If the total is infinite
    or NaN, `GradientError` with `error_if_nonfinite`, otherwise gradients become 0 or NaN, as in
    PyTorch. `GradientError` too if gradients are still scaled by a `GradScaler`. Pascanu et al.
    2013, arXiv:1211.5063, algorithm 1. Inside `jit` the total is traced like any number.

    >>> w = cr.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> optim.clip_grad_norm(w, 1.0), w.grad
    (10.0, tensor([0.5999999, 0.7999999], dtype=float32))
    """
    if not max_norm >= 0 or not norm_type > 0:
        raise ConfigError(
            f"clip_grad_norm: max_norm {max_norm} is at least 0, norm_type {norm_type} above 0"
        )
    every = _check_unscaled("clip_grad_norm", parameters)
    with_grad = [(p, p.grad.detach()) for p in every if p.grad is not None]
    if not with_grad:
        return 0.0
    if (by := tracer()) is not None:
        return _clip_traced(by, with_grad, max_norm, norm_type, error_if_nonfinite)
    total = float(_total([g.value for _, g in with_grad], norm_type))
    if error_if_nonfinite and not math.isfinite(total):
        raise GradientError(
            f"the norm of the gradients is {total}: look for the first infinite or NaN value, "
            "or say error_if_nonfinite=False to go on"
        )
    factor = max_norm / (total + 1e-6)
    if not factor >= 1:
        with np.errstate(all="ignore"):
            for p, g in with_grad:
                p.grad = variable(g.value * factor)
    return total


def _clip_traced(
    by: Any, with_grad: list[tuple[Tensor, Any]], max_norm: float, order: float, check: bool
) -> Any:
    """The same while it is traced, where nobody can ask whether the norm is too large."""
    if check:
        raise TraceError(
            "clip_grad_norm: error_if_nonfinite=True asks for the norm in a function that is "
            "compiled: return the norm, and look at it outside"
        )
    total = by.as_number(_total([g for _, g in with_grad], order))
    factor = max_norm / (total + 1e-6)
    factor = where(factor >= 1, 1.0, factor)
    for p, g in with_grad:
        p.grad = g * factor
    return total


def _total(gradients: list[Any], order: float) -> Any:
    """The norm of arrays, or of tensors that are traced, in float64."""
    if order == 2:
        return ew.sqrt(reduce(ew.add, [_square_sum(g) for g in gradients]))
    if order == math.inf:
        return reduce(ew.maximum, [astype(_largest(g), np.float64) for g in gradients])
    sums = [red.sum(astype(ew.abs(g), np.float64) ** order) for g in gradients]
    return reduce(ew.add, sums) ** (1 / order)


def _largest(g: Any) -> Any:
    return red.max(ew.abs(g)) if math.prod(g.shape) else np.zeros((), g.dtype)


def _square_sum(g: Any) -> Any:
    """In float64, in which squares of float32 can neither overflow nor vanish."""
    flat = reshape(astype(g, np.float64, copy=False), (-1,))
    return matmul(flat, flat)
