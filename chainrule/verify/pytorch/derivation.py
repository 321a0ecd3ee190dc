"""The derivative of a forward as PyTorch has it, in float64; cuts of the graph are looked through:
it is the forward that tells the right gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree

from chainrule.verify import user_frames
from chainrule.verify.place import Place
from chainrule.verify.pytorch.call_observers import Seen
from chainrule.verify.pytorch.convert import Array, to_numpy, to_torch
from chainrule.verify.pytorch.derivatives import gradients
from chainrule.verify.pytorch.float64_code import wide
from chainrule.verify.pytorch.replays import Replay

_TENSOR: Any = Tensor
_CUTS: tuple[Any, ...] = (Tensor.detach, _TENSOR.data.__get__, torch.detach)
_NUMBERS: tuple[Any, ...] = (
    _TENSOR.item, _TENSOR.tolist, _TENSOR.numpy, _TENSOR.__array__,
    _TENSOR.__float__, _TENSOR.__int__, _TENSOR.__complex__,
)  # fmt: skip


class UntraceableError(Exception):
    """The forward does what leaves the graph; the message says what."""


class _Relinking(Seen):
    """While active, cuts are the identity, and ops are recorded where recording is off."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts: dict[Place, None] = {}
        """The user's lines at which that made a difference."""

    def called(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The call, in the graph."""
        leaves = pytree.tree_leaves((args, kwargs))
        if not any(isinstance(x, Tensor) and x.requires_grad for x in leaves):
            return func(*args, **kwargs)
        if func in _NUMBERS or "out" in kwargs:
            raise UntraceableError(getattr(func, "__name__", str(func)))
        if (func in _CUTS or not torch.is_grad_enabled()) and (
            at := user_frames.place()
        ) is not None:
            self.cuts[at] = None
        if func in _CUTS:
            return args[0]
        with torch.enable_grad():
            return func(*args, **kwargs)


def derivative(
    run: Callable[[Sequence[Any]], Sequence[Tensor]],
    args: Sequence[Any],
    wanted: Sequence[bool],
    gs: Sequence[Array],
    replay: Replay,
) -> tuple[Array | None, ...]:
    """x_bars of `run`, which gives outputs for `args`, None where no gradient is wanted.

    `UntraceableError`, or whatever else is raised, where it cannot be followed.
    """
    args = [wide(x) if isinstance(x, Tensor) else x for x in args]
    leaves = [
        x.requires_grad_() if w and isinstance(x, Tensor) else None
        for x, w in zip(args, wanted, strict=True)
    ]
    given = [x.clone() if isinstance(x, Tensor) else x for x in args]
    with replay.running(args), torch.enable_grad(), _kept_apart(), _Relinking():
        ys = [y for y in run(given) if y.is_floating_point() or y.is_complex()]
    sent = [to_torch(np.asarray(g)).to(y.dtype) for y, g in zip(ys, gs, strict=True)]
    found = iter(gradients(ys, sent, [x for x in leaves if x is not None]))
    return tuple([None if x is None else _or_zero(next(found), x) for x in leaves])


def cuts_in(
    run: Callable[[Sequence[Any]], Sequence[Tensor]],
    args: Sequence[Any],
    wanted: Sequence[bool],
    replay: Replay,
) -> tuple[Place, ...]:
    """The user's lines at which `run` takes values off the graph; none if it cannot be followed."""
    args = [
        x.requires_grad_() if w and isinstance(x, Tensor) else x
        for x, w in zip(args, wanted, strict=True)
    ]
    given = [x.clone() if isinstance(x, Tensor) else x for x in args]
    whole = _Relinking()
    with suppress(Exception), replay.running(args), torch.enable_grad(), whole:
        run(given)
        return tuple(whole.cuts)
    return ()


def _kept_apart() -> saved_tensors_hooks:
    """Inside, what a backward will need is copied: a forward may write over its own values."""
    return saved_tensors_hooks(lambda x: x.clone(), lambda x: x)


def _or_zero(x: Tensor | None, like: Tensor) -> Array:
    return to_numpy(torch.zeros_like(like) if x is None else x)
