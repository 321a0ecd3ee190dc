"""Code on tensors (PyTorch's and ours) seen as functions of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from .case import Call


def to_torch(x: Any) -> Any:
    """An array as a tensor that needs a gradient if it is of floats; strides are kept."""
    import torch

    if not isinstance(x, np.ndarray):
        return x
    t = torch.from_numpy(x.copy(order="K"))
    return t.requires_grad_() if t.is_floating_point() or t.is_complex() else t


def to_own(x: Any) -> Any:
    """The same for tensors of ours."""
    import chainrule as cr

    if not isinstance(x, np.ndarray):
        return x
    return cr.tensor(x, requires_grad=x.dtype.kind in "fc")


def runner(face: str, made: ModuleType, call: Call) -> Callable[..., Any]:
    """A Function's `apply` as a run on arrays (see `independent.Run`)."""
    make = to_torch if face == "torch" else to_own
    apply = getattr(made, call.forward).apply

    def run(*args: Any) -> tuple[Any, Any]:
        tensors = [make(a) for a in args]
        y = apply(*tensors)
        value = np.array(y.detach().numpy())
        return value, lambda g: _pulled(face, y, tensors, g)

    return run


def _pulled(face: str, y: Any, tensors: list[Any], g: Any) -> tuple[Any, ...]:
    """What each tensor's gradient is after a backward pass from y with cotangent g."""
    y.backward(to_torch(np.asarray(g)).detach() if face == "torch" else to_own(np.asarray(g)))
    grads = [getattr(t, "grad", None) for t in tensors]
    return tuple([None if d is None else np.asarray(d.detach().numpy()) for d in grads])
