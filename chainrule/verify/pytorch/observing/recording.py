"""Modules and ops of one run of a model: each kind once, with the arguments that it got."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from chainrule.verify import user_frames
from chainrule.verify.ledger import Skipped
from chainrule.verify.place import Place
from chainrule.verify.pytorch.call_observers import Seen
from chainrule.verify.pytorch.convert import elements
from chainrule.verify.pytorch.flat_arguments import floats_in
from chainrule.verify.pytorch.replays import Replay

MAX_OPS = 24
MAX_ELEMENTS = 20_000
# fmt: off
_MOVES = frozenset([
    "view", "reshape", "transpose", "permute", "expand", "getitem", "contiguous", "unsqueeze",
    "squeeze", "flatten", "T", "mT", "t", "split", "chunk", "unbind", "clone", "to", "float",
    "size", "iter", "view_as", "expand_as", "requires_grad", "data", "type_as", "backward",
])
"""Ops that only move numbers."""
# fmt: on


@dataclass(frozen=True, eq=False)
class Ran:
    """A module, or an op, that ran: arguments are copies."""

    name: str
    what: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    replay: Replay
    place: Place | None


@dataclass(eq=False)
class Recording:
    """What ran inside a model, in order."""

    names: dict[nn.Module, str]
    modules: list[Ran] = field(default_factory=list[Ran])
    ops: list[Ran] = field(default_factory=list[Ran])
    stack: list[nn.Module] = field(default_factory=list[nn.Module])
    """Modules that are running now."""
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    entered_names: list[str] = field(default_factory=list[str])
    """Names of all modules that ran, in order."""
    _seen: set[Any] = field(default_factory=set[Any])

    def owner(self) -> str:
        """Name of the innermost module that is running."""
        return self.names[self.stack[-1]] if self.stack else "model"

    def entered(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A module is about to run."""
        self.stack.append(module)
        if self.names[module] not in self.entered_names:
            self.entered_names.append(self.names[module])
        key = (type(module), module.training, _hooked(module) and id(module))
        if key in self._seen or not torch.is_grad_enabled() or not self._worth(module):
            return
        self._seen.add(key)
        given = pytree.tree_leaves((args, kwargs))
        size = elements([*given, *module.parameters()])
        if size > 2 * MAX_ELEMENTS:
            why = f"{size} numbers go into it: too many to be looked at by itself"
            self.skipped.append(Skipped(self.names[module], why))
            return
        self.modules.append(_ran(self.names[module], module, args, kwargs))

    def _worth(self, module: nn.Module) -> bool:
        """The model itself is looked at with its loss, if nobody hooked into it."""
        return worth(module) and (self.names[module] != "model" or _hooked(module))

    def left(self, *_: Any) -> None:
        """The innermost module is done."""
        if self.stack:
            self.stack.pop()

    def noted(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether an op that is about to run, outside PyTorch's own modules, is new."""
        if len(self.ops) >= MAX_OPS or (self.stack and _native(self.stack[-1])):
            return False
        name = op_name(func)
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        live = any(x.requires_grad for x in tensors) and torch.is_grad_enabled()
        if not live or name in _MOVES or elements(tensors) > MAX_ELEMENTS or "out" in kwargs:
            return False
        key = (name, len(tensors), tuple([(x.dtype, x.dim()) for x in tensors]))
        if key in self._seen:
            return False
        self._seen.add(key)
        self.ops.append(_ran(f"{self.owner()}.{name}", func, args, kwargs))
        return True

    def forget(self) -> None:
        """The op that was noted last has no result with a gradient."""
        self.ops.pop()


class _Ops(Seen):
    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording

    def called(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The call, noted if it is new."""
        noted = self._recording.noted(func, args, kwargs)
        out = func(*args, **kwargs)
        if noted and not any(y.requires_grad for y in floats_in(out)):
            self._recording.forget()
        return out


def op_name(func: Any) -> str:
    """The name of an op without its spelling: "mul" for `a * b`, "T" for `a.T`.

    >>> op_name(Tensor.__mul__), op_name(Tensor.__imul__), op_name(Tensor.T.__get__)
    ('mul', 'mul', 'T')
    """
    name: str = getattr(func, "__name__", str(func))
    if name == "__get__":
        return str(func.__self__.__name__)
    bare = name.strip("_")
    if name.startswith("__i") and bare not in ("invert", "iter", "index", "int"):
        return bare[1:]
    if name.startswith("__r") and bare not in ("repr", "rshift"):
        return bare[1:]
    return bare


@contextmanager
def recording(model: nn.Module) -> Generator[Recording]:
    """Inside, modules of the model and ops between them are recorded as they run."""
    every = cast("Iterable[tuple[str, nn.Module]]", model.named_modules())
    names = {m: "model" + ("." + n if n else "") for n, m in every}
    seen = Recording(names)
    with ExitStack() as stack:
        for module in names:
            stack.callback(module.register_forward_pre_hook(seen.entered, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(seen.left, always_call=True).remove)
        with _Ops(seen):
            yield seen


def worth(module: nn.Module) -> bool:
    """Whether a module is looked at by itself: leaves, and those with hooks or, of the user's own,
    without others of the user's inside."""
    children = list(module.children())
    if _hooked(module) or not children:
        return not _native(module) or _hooked(module) or bool(list(module.parameters()))
    inner = [m for m in module.modules() if m is not module]
    return not _native(module) and all(_native(m) for m in inner)


def _native(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.")


def _hooked(module: nn.Module) -> bool:
    """Whether somebody's hook sees, or changes, gradients at this module."""
    own: Any = module
    return bool(own._backward_hooks or own._backward_pre_hooks)


def _ran(name: str, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ran:
    copied: Any = pytree.tree_map_only(Tensor, _copy, (args, kwargs))
    return Ran(name, what, copied[0], copied[1], Replay.of((args, kwargs)), user_frames.place())


def _copy(x: Tensor) -> Tensor:
    return x.detach().clone().requires_grad_(x.requires_grad)
