"""What a script computes in one step, call by call, known without asking autograd.

A mode sees every call of PyTorch's that the script makes, including those which cut
the graph: `.detach()`, `.data`, everything under `no_grad`. Calls that depend on a leaf which
requires a gradient are kept as entries, each tensor as the number of a slot, so that the flow of
values from parameters to the loss is known, and can be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, cast, final

import torch
from torch import Tensor

from chainrule.verify.pytorch.seen import Seen
from chainrule.verify.script.tensors import checksum, tensors_in
from chainrule.verify.where import Frames, frames

_PROPERTIES = {"data", "T", "mT", "H", "mH", "real", "imag"}
"""Attributes that are tensors computed from the tensor."""
_OTHER = {"backward", "register_hook", "retain_grad", "requires_grad_", "__repr__", "__set__"}
"""Calls that compute nothing; `x.data = y` brings state up to date."""
_EXITS = {"item", "__float__", "tolist", "numpy", "__array__", "__int__"}
unseen: Any = torch._C.DisableTorchFunction  # pyright: ignore[reportPrivateUsage]
"""Within it no other mode looks at what a tape asks of tensors."""
MOST = 1 << 31
"""Bytes of tensors that are held for a tape."""


@dataclass(frozen=True)
class Slot:
    """Stands for a tensor in an entry's arguments."""

    number: int


@dataclass(eq=False)
class Entry:
    """One call that depends on a parameter."""

    name: str
    function: Callable[..., Any]
    args: Any
    kwargs: Any
    inputs: tuple[int, ...]
    connected: tuple[int, ...]
    """Those of the inputs through which a gradient could have flowed."""
    outputs: tuple[int, ...]
    wrote: int | None
    """The group of tensors into whose memory it wrote."""
    is_live: bool
    """Whether autograd keeps the result connected."""
    is_float: bool
    eps: float
    """Rounding of its least precise result."""
    grad: bool
    """Whether autograd was on."""
    random: Tensor | None
    """State of the random stream before, if the call drew from it."""
    autocast: torch.dtype | None
    frames: Frames = ()
    """Where a call that cuts was made."""

    @property
    def cuts(self) -> bool:
        """Whether a gradient could have flowed through, and does not."""
        return bool(self.connected) and self.is_float and not self.is_live


@dataclass(frozen=True, eq=False)
class Exit:
    """A number or array that was taken out of PyTorch."""

    how: str
    slot: int
    value: Any
    frames: Frames


@final
class Tape(Seen):
    """Records while it is active; `entries` in the order of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.exits: list[Exit] = []
        self.roots: dict[int, Tensor] = {}
        """Slots of tensors that require a gradient and come from outside."""
        self.group: dict[int, int] = {}
        """Slots that share memory have one group."""
        self.seconds = 0.0
        """Spent on recording."""
        self.broken = ""
        """Why it recorded no further."""
        self.active = True
        self.records: Callable[[], bool] = lambda: True
        """Is asked before each call whether it is to be recorded."""
        self.marks: dict[int, tuple[Tensor, int, float]] = {}
        """By id: tensors that went into or came out of connected calls, their version and sum."""
        self._slots: dict[int, int] = {}
        self._tensors: dict[int, Tensor] = {}
        self._made: set[int] = set()
        self._bytes = 0

    def slot(self, x: Tensor) -> int | None:
        """The number of a tensor that depends on a root."""
        return self._slots.get(id(x))

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call, recorded."""
        if not (self.active and self.records()):
            return func(*args, **kwargs)
        return self.observed(func, args, kwargs)

    def observed(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Make the call, and record it."""
        prepared: _Before | None = None
        start = perf_counter()
        try:
            with unseen():
                prepared = self._before(func, args, kwargs)
        except Exception as error:
            self.give_up(f"{type(error).__name__}: {error}")
        begin = perf_counter()
        out = func(*args, **kwargs)
        end = perf_counter()
        if prepared is not None:
            try:
                with unseen():
                    self._after(prepared, out)
            except Exception as error:
                self.give_up(f"{type(error).__name__}: {error}")
        self.seconds += begin - start + perf_counter() - end
        return out

    def give_up(self, why: str) -> None:
        """Record nothing more and hold nothing."""
        self.active = False
        self.broken = why
        self.clear()

    def clear(self) -> None:
        """Let go of all tensors."""
        self._slots.clear()
        self._tensors.clear()
        self.entries.clear()
        self.roots.clear()
        self.marks.clear()

    def _before(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Before | None:
        tensors = tensors_in((args, kwargs))
        if not any(id(t) in self._slots or t.requires_grad for t in tensors):
            return None
        name: str = getattr(func, "__name__", str(func))
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
            if name not in _PROPERTIES:
                return None
        if name in _OTHER:
            return None
        target = tensors[0] if _writes(name) and tensors else None
        if target is not None and self._is_root(target):
            return None  # a parameter is updated: what counts is the value that it is left with
        if target is not None and id(target) not in self._slots:
            if not torch.is_grad_enabled():
                return None  # state that is kept up to date: averages, running statistics
            self._hold(target.detach().clone(), target)
        slots = [(self._tracked(t), t.requires_grad) for t in tensors if self._follows(t)]
        stream = torch.get_rng_state() if tensors else None
        fresh = [t for t in tensors if self._slots.get(id(t), -1) not in self._made]
        given = self._stored(args), self._stored(kwargs)
        return _Before(name, func, *given, slots, target, stream, fresh)

    def _is_root(self, t: Tensor) -> bool:
        """Whether a tensor shares its memory with one that comes from outside."""
        slot = self._slots.get(id(t))
        return t.is_leaf and t.requires_grad if slot is None else self.group[slot] in self.roots

    def _follows(self, t: Tensor) -> bool:
        return id(t) in self._slots or t.requires_grad

    def _tracked(self, t: Tensor) -> int:
        """The slot of a tensor; a new root if it has none."""
        known = self._slots.get(id(t))
        if known is None:
            known = self._new(t)
            self.roots[known] = t
        return known

    def _hold(self, old: Tensor, target: Tensor) -> None:
        """Follow from now on a tensor that nothing depended on: `old` is what it was."""
        slot = self._new(target)
        self.entries.append(
            Entry(
                "old", old.clone, (), {}, (), (), (slot,), None, False, True, 0.0, True, None, None
            )
        )

    def _new(self, t: Tensor, group: int | None = None) -> int:
        slot = len(self.group)
        self.group[slot] = slot if group is None else group
        self._tensors[slot] = t
        if id(t) not in self._slots:
            self._bytes += t.numel() * t.element_size()
            if self._bytes > MOST:
                raise MemoryError(f"a step holds more than {MOST >> 30} GiB of tensors")
        self._slots[id(t)] = slot
        return slot

    def _stored(self, x: Any) -> Any:
        """Arguments with slots in place of what is followed."""
        if isinstance(x, Tensor):
            return Slot(self._tracked(x)) if self._follows(x) else x
        if isinstance(x, tuple | list):
            items = [self._stored(i) for i in cast("Sequence[Any]", x)]
            return items if isinstance(x, list) else tuple(items)
        if isinstance(x, dict):
            return {k: self._stored(v) for k, v in cast("dict[Any, Any]", x).items()}
        return x

    def _after(self, b: _Before, out: Any) -> None:
        inputs = tuple([slot for slot, _ in b.slots])
        outs = [b.target] if b.name == "__setitem__" else tensors_in(out)
        made = [t for t in outs if t is not None]
        if not made:
            if b.name in _EXITS and inputs:
                self.exits.append(Exit(b.name, inputs[0], out, frames()))
            return
        group = self.group[inputs[0]] if b.target is not None and inputs else None
        shared = {_memory(self._tensors[s]): self.group[s] for s in inputs}
        slots = tuple([self._new(t, shared.get(_memory(t))) for t in made])
        self._made.update(slots)
        entry = Entry(
            b.name,
            b.function,
            b.args,
            b.kwargs,
            inputs,
            tuple([s for s, needs in b.slots if needs]),
            slots,
            group,
            any(t.requires_grad and not t.is_leaf for t in made),
            any(t.is_floating_point() or t.is_complex() for t in made),
            max([torch.finfo(t.dtype).eps for t in made if t.is_floating_point()], default=0.0),
            torch.is_grad_enabled(),
            None if b.stream is None or torch.equal(b.stream, torch.get_rng_state()) else b.stream,
            torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None,
        )
        if entry.cuts:
            entry.frames = frames()
        self.entries.append(entry)
        if entry.is_live:
            for t in [*b.fresh, *made]:
                self._mark(t)

    def _mark(self, t: Tensor) -> None:
        total = checksum(t)
        if total is not None:
            self.marks[id(t)] = (t, t._version, total)  # pyright: ignore[reportPrivateUsage]


@dataclass(frozen=True, eq=False)
class _Before:
    """A call that is about to be made."""

    name: str
    function: Any
    args: Any
    kwargs: Any
    slots: list[tuple[int, bool]]
    target: Tensor | None
    stream: Tensor | None
    fresh: list[Tensor]
    """Arguments that no recorded call made."""


def _writes(name: str) -> bool:
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def _memory(t: Tensor) -> int:
    return t.untyped_storage().data_ptr() if t.layout is torch.strided else id(t)
