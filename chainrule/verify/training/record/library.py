"""Where a library has what every training loop goes through: what taps and the clock wrap."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple


class Library(NamedTuple):
    """These places of one library."""

    optimizer: Any
    """The class of all optimizers."""
    module: Any
    """That of all modules."""
    scaler: Any
    backward: Sequence[tuple[Any, str]]
    """Where backward passes begin. PyTorch's first one calls the second, which alone would not do:
    it runs while modes are set aside, and a mode cannot be taken off the stack then."""
    grad: Sequence[tuple[Any, str]]
    """Where derivatives are asked for that are given to who asks."""
    clips: Sequence[tuple[Any, str]]
    """Functions that clip."""
    schedules: Sequence[Any]
    """Classes with a `step` of their own."""


def torch_library() -> Library:
    """PyTorch's."""
    torch: Any = import_module("torch")
    owners = (torch.nn.utils, import_module("torch.nn.utils.clip_grad"))
    kinds: Any = import_module("torch.optim.lr_scheduler")
    names = ("LRScheduler", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau")
    return Library(
        torch.optim.Optimizer,
        torch.nn.Module,
        torch.amp.GradScaler,
        [(torch.Tensor, "backward"), (torch.autograd, "backward")],
        [(torch.autograd, "grad")],
        [(o, name) for o in owners for name in ("clip_grad_norm_", "clip_grad_value_")],
        [getattr(kinds, name) for name in names],
    )


def native_library() -> Library:
    """chainrule's."""
    from chainrule import optim
    from chainrule.amp import GradScaler
    from chainrule.engine.tensors import Tensor
    from chainrule.nn.base.module import Module
    from chainrule.optim import clip
    from chainrule.optim.optimizer import Optimizer
    from chainrule.optim.scheduler import Scheduler

    clips = [(o, name) for o in (optim, clip) for name in ("clip_grad_norm", "clip_grad_value")]
    return Library(Optimizer, Module, GradScaler, [(Tensor, "backward")], [], clips, [Scheduler])
