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
    if call.how == "model":
        return _model(face, made, call)
    make = to_torch if face == "torch" else to_own
    apply = getattr(made, call.forward).apply
    if call.how == "double":
        apply = _first(apply)

    def run(*args: Any) -> tuple[Any, Any]:
        tensors = [make(a) for a in args]
        y = apply(*tensors)
        value = np.array(y.detach().numpy())
        return value, lambda g: _pulled(face, y, tensors, g)

    return run


def _first(apply: Callable[..., Any]) -> Callable[..., Any]:
    """The pullback with a cotangent of its own, as a function that can be differentiated again."""
    import torch

    def pulled(*tensors: Any) -> Any:
        y = apply(*tensors)
        g = torch.linspace(-1.0, 2.0, y.numel(), dtype=y.dtype).reshape(y.shape)
        bars = torch.autograd.grad(y, tensors, g, create_graph=True)
        return torch.cat([b.reshape(-1) for b in bars])

    return pulled


def model(face: str, made: ModuleType, call: Call, args: Any) -> tuple[Any, list[Any], list[Any]]:
    """A model with its parameters set, its batch, and all arguments as tensors."""
    make = to_torch if face == "torch" else to_own
    tensors = [make(a) for a in args]
    n = len(args) - len(call.params)
    return getattr(made, call.forward)(*tensors[n:]), tensors[:n], tensors


def _model(face: str, made: ModuleType, call: Call) -> Callable[..., Any]:
    """The loss as a function of the batch and the parameters."""

    def run(*args: Any) -> tuple[Any, Any]:
        net, batch, tensors = model(face, made, call, args)
        y = made.loss(net(*batch[:-1]), batch[-1])
        held = [*batch, *net.parameters()] if face == "torch" else tensors
        return np.array(y.detach().numpy()), lambda g: _pulled(face, y, held, g)

    return run


def _pulled(face: str, y: Any, tensors: list[Any], g: Any) -> tuple[Any, ...]:
    """What each tensor's gradient is after a backward pass from y with cotangent g."""
    y.backward(to_torch(np.asarray(g)).detach() if face == "torch" else to_own(np.asarray(g)))
    grads = [getattr(t, "grad", None) for t in tensors]
    return tuple([None if d is None else np.asarray(d.detach().numpy()) for d in grads])
