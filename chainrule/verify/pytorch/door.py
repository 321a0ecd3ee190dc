"""The one door through which a running program's calls of PyTorch come by, for all who look on.

A mode on PyTorch's stack costs each call some microseconds, so there is one for all onlookers of a
thread, which is there while anybody looks. What is known of a function is found out once.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from chainrule.verify.pytorch import modes
from chainrule.verify.pytorch.nested_tensors import tensors_in, total

unseen: Any = torch._C.DisableTorchFunction  # pyright: ignore[reportPrivateUsage]
"""Within it nobody sees what is asked of tensors."""

_PROPERTIES = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})
"""Attributes that are tensors computed from the tensor."""
_NOTHING = frozenset(
    {"backward", "register_hook", "retain_grad", "requires_grad_", "__repr__", "__set__",
     "__delete__", "_set_grad_enabled", "_record_function_enter_new",
     "_record_function_exit._RecordFunction"}
)  # fmt: skip
"""Calls that compute nothing; `x.data = y` brings state up to date."""
_STILL = frozenset(
    {"linear", "matmul", "__matmul__", "add", "sub", "mul", "div", "__add__", "__sub__", "__mul__",
     "__truediv__", "__radd__", "__rsub__", "__rmul__", "__neg__", "__pow__", "pow", "exp", "log",
     "sqrt", "rsqrt", "abs", "neg", "square", "view", "reshape", "transpose", "permute", "split",
     "chunk", "__getitem__", "softmax", "log_softmax", "relu", "relu_", "gelu", "silu", "tanh",
     "sigmoid", "layer_norm", "batch_norm", "conv1d", "conv2d", "max_pool2d", "embedding",
     "cross_entropy", "mse_loss", "masked_fill", "sum", "mean", "var", "cat", "stack", "flatten",
     "contiguous", "unsqueeze", "squeeze", "expand", "size", "dim", "item", "detach", "clone",
     "float", "to", "where", "data", "T", "mT"}
)  # fmt: skip
"""Calls that draw no random numbers, so that the stream need not be looked at."""


class Kind(NamedTuple):
    """What is known of a function before it is called."""

    name: str
    """Attributes by their own name; empty for what computes nothing."""
    writes: bool
    """Whether it changes its first argument."""
    still: bool
    """Whether it surely draws no random numbers."""

    @classmethod
    def of(cls, name: str) -> Kind:
        """What the name of a function tells.

        >>> Kind.of("add_").writes, Kind.of("__add__").writes, Kind.of("dropout").still
        (True, False, False)
        """
        writes = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
        return cls(name, writes, name in _STILL)


_kinds: dict[Any, Kind] = {}
_next: Callable[[], int] = torch.autograd._get_sequence_nr  # pyright: ignore


def kind_of(func: Any) -> Kind:
    """What is known of a function of PyTorch's, or of one that stands for it."""
    try:
        return _kinds[func]
    except KeyError:
        kind = _kinds[func] = Kind.of(_name(func))
        return kind
    except TypeError:  # it cannot be a key
        return Kind.of(_name(func))


def _name(func: Any) -> str:
    name: str = getattr(func, "__name__", str(func))
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", "")
        return name if name in _PROPERTIES else ""
    return "" if name in _NOTHING else name


@final
class Call:
    """A call of the program's, before and after it was made."""

    __slots__ = ("_totals", "args", "func", "kind", "kwargs", "made", "noted", "since", "y")

    made: Sequence[Tensor]
    """The tensors in `y`."""
    noted: Any
    """What a recorder has noted before it."""

    def __init__(
        self, kind: Kind, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self.kind = kind
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.since = _next()
        """Serial number of the first node of autograd's that it makes, if it makes any."""

    def gave(self, y: Any) -> None:
        """Its result is there."""
        self.y = y
        self.made = (y,) if y.__class__ is Tensor else tensors_in(y)
        self._totals: dict[int, float | None] | None = None

    def total(self, i: int) -> float | None:
        """The sum of result i as `total` has it, taken once for all who ask."""
        known = self._totals
        if known is None:
            known = self._totals = {}
        if i not in known:
            known[i] = total(self.made[i])
        return known[i]


class Onlooker(ABC):
    """Is told of calls; no method may raise."""

    @abstractmethod
    def saw(self, call: Call) -> None:
        """A call was made."""


class Recorder(Onlooker):
    """Looks at arguments as well, before a call can change them. There is one at a time."""

    @abstractmethod
    def begins(self, call: Call) -> None:
        """The call is about to be made."""


@final
class _Door(TorchFunctionMode):
    """On the stack of its thread while it has onlookers."""

    def __init__(self) -> None:
        super().__init__()
        self.onlookers: tuple[Onlooker, ...] = ()
        self.recorder: Recorder | None = None
        self.is_paused = False
        self.calls = 0
        """How many it is handing on: PyTorch has it off the stack meanwhile, and puts it back, even
        if nobody looks on any more."""

    def take(self, onlookers: Sequence[Onlooker]) -> None:
        """These look on from now on."""
        self.onlookers = tuple(onlookers)
        self.recorder = next((o for o in onlookers if isinstance(o, Recorder)), None)
        self.settle()

    def settle(self) -> None:
        """Stand on the stack if anybody looks on."""
        if not self.calls:
            (modes.push if self.onlookers and not self.is_paused else modes.pull)(self)

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        try:
            kind = _kinds[func]
        except (KeyError, TypeError):
            kind = kind_of(func)
        onlookers = self.onlookers
        if self.is_paused or not (kind.name and onlookers):
            return func(*args, **kwargs) if kwargs else func(*args)
        call = Call(kind, func, args, kwargs or {})
        self.calls += 1
        try:
            if self.recorder is not None:
                with unseen():
                    self.recorder.begins(call)
            y = func(*args, **kwargs) if kwargs else func(*args)
            with unseen():
                call.gave(y)
                for onlooker in onlookers:
                    onlooker.saw(call)
            return y
        finally:
            self.calls -= 1


_here = threading.local()


def _door() -> _Door:
    found: _Door | None = getattr(_here, "door", None)
    if found is None:
        found = _here.door = _Door()
    return found


def look(onlooker: Onlooker) -> None:
    """Tell an onlooker of the calls of this thread from now on."""
    door = _door()
    if onlooker not in door.onlookers:
        door.take((*door.onlookers, onlooker))


def look_away(onlooker: Onlooker) -> bool:
    """Tell it no more; whether it was told until now."""
    door = _door()
    if onlooker not in door.onlookers:
        return False
    door.take([o for o in door.onlookers if o is not onlooker])
    return True


def close() -> None:
    """Tell nobody any more: in a copy of the process."""
    _door().take(())


def pause() -> None:
    """Tell nobody of the calls of this thread: a backward pass, an optimizer or we are at work."""
    door = _door()
    if not door.is_paused:
        door.is_paused = True
        door.settle()


def resume() -> None:
    """Tell onlookers again."""
    door = _door()
    if door.is_paused:
        door.is_paused = False
        door.settle()
