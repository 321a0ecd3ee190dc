"""Calls of user-defined `Function`s, recorded while a program runs.

The hook sits below `Function.apply`, where calls through an `apply` that somebody kept in a
variable come by as well. It is in place only while somebody records, and costs a few microseconds
for a call of a kind that has been seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function

from chainrule.verify import user_frames
from chainrule.verify.ledger import Skipped
from chainrule.verify.place import Place
from chainrule.verify.pytorch.flat_arguments import call_of
from chainrule.verify.pytorch.observing.held_modules import with_holders
from chainrule.verify.pytorch.replays import Replay
from chainrule.verify.subject import Subject

_LEVEL: Any = Function.__mro__[1]
"""The class between `Function` and what is compiled: where `Function.apply` finds its `super`'s."""
_NOT_USERS = ("torch.", "chainrule.verify.")
_MAX_CALLS = 8
_lock = threading.Lock()
_active: list[Capture] = []


@dataclass(eq=False)
class Captured:
    """One call of `function`, as it was about to be made: arguments are copies."""

    function: type[Function]
    args: tuple[Any, ...]
    replay: Replay
    place: Place | None
    """The line that called it."""
    owner: str
    """Where in the model, if the recorder knows."""
    order: int
    """Number of the call among all that were recorded."""
    keeps_graph: bool = False
    """Whether its backward ran under `create_graph`: its gradient is differentiated."""

    def subjects(self) -> list[Subject]:
        """The call, and the derivative of its gradient if the program takes that."""
        from chainrule.verify.pytorch.calls import CallSubject  # which looks for calls
        from chainrule.verify.pytorch.cropped_calls import crop

        if not self.keeps_graph:
            return [self.subject()]

        def made(args: Sequence[Any]) -> Subject:
            call = call_of(self.apply, args, name=self.function.__name__)
            return CallSubject(replace(call, replay=self.replay), 2, "reverse")

        return [self.subject(), crop(self.args, made)]

    @property
    def apply(self) -> Any:
        """The function as it is called."""
        return cast(Any, self.function).apply

    def subject(self, name: str | None = None) -> Subject:
        """The call, to be verified; a part of it if it is large."""
        from chainrule.verify.pytorch.cropped_calls import crop
        from chainrule.verify.pytorch.function_subject import (
            FunctionSubject,  # which looks for calls
        )

        def made(args: Sequence[Any]) -> Subject:
            return FunctionSubject(self.function, args, name=name, replay=self.replay)

        return crop(self.args, made)


@dataclass(eq=False)
class Capture:
    """What was recorded: each class once for all calls of the same shapes, dtypes and settings, and
    at most eight times."""

    max_bytes: int
    owner: Callable[[], str] = field(default=lambda: "")
    calls: list[Captured] = field(default_factory=list[Captured])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    bytes: int = 0
    hidden: int = 0
    """Calls made without a graph, as those of a checkpointed forward are."""
    owners: list[str] = field(default_factory=list[str])
    """For each subject that was made, where it was called."""
    _seen: dict[Any, Captured | None] = field(default_factory=dict[Any, "Captured | None"])

    def subjects(self) -> list[Subject]:
        """A subject for each call, in the order of the calls; classes that cannot be verified are
        noted in `skipped`."""
        out: list[Subject] = []
        for call in self.calls:
            try:
                made = call.subjects()
                out += made
                self.owners += [call.owner] * len(made)
            except Exception as error:
                self.skipped.append(Skipped(call.function.__name__, f"{error}"))
        return out

    def note(self, function: type[Function], args: Sequence[Any]) -> None:
        """Record a call that is about to be made."""
        if not torch.is_grad_enabled():
            self.hidden += 1
            return
        key = _key(function, args)
        if key in self._seen or self._full(function):
            return
        self._seen[key] = None
        if not any(isinstance(x, Tensor) and x.requires_grad for x in args):
            return
        size = sum([x.numel() * x.element_size() for x in args if isinstance(x, Tensor)])
        if self.bytes + size > self.max_bytes:
            why = f"{size / 1e6:.0f} MB of arguments: more than is kept while a program runs"
            self.skipped.append(Skipped(function.__name__, why))
            return
        self.bytes += size
        replay = Replay.of(args)
        copies = tuple([_copy(x) for x in with_holders(args)])
        number = len(self.calls)
        call = Captured(function, copies, replay, user_frames.place(), self.owner(), number)
        self.calls.append(call)
        self._seen[key] = call

    def follow(self, function: type[Function], args: Sequence[Any], out: Any) -> None:
        """See whether the backward of a call that was made keeps a graph."""
        call = self._seen.get(_key(function, args))
        outputs = cast("Sequence[Any]", out) if isinstance(out, tuple | list) else (out,)
        node = next((y.grad_fn for y in outputs if isinstance(y, Tensor) and y.grad_fn), None)
        if call is None or call.keeps_graph or node is None:
            return

        def look(*_: Any) -> None:
            call.keeps_graph |= torch.is_grad_enabled()

        cast(Any, node).register_prehook(look)

    def _full(self, function: type[Function]) -> bool:
        """Whether enough calls of a class were recorded whose shapes or settings vary."""
        return sum([c.function is function for c in self.calls]) >= _MAX_CALLS


def _key(function: type[Function], args: Sequence[Any]) -> tuple[Any, ...]:
    """What calls have in common that are looked at once."""
    return (function, tuple([_signature(x) for x in args]))


def _signature(x: Any) -> tuple[Any, ...]:
    if isinstance(x, Tensor):
        return (x.shape, x.dtype, x.requires_grad)
    return (x,) if isinstance(x, int | float | str | None) else (type(x).__qualname__,)


def _copy(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    return x.detach().clone().requires_grad_(x.requires_grad)


@contextmanager
def capturing(
    *, max_bytes: int = 256_000_000, owner: Callable[[], str] | None = None
) -> Generator[Capture]:
    """Inside, calls of `autograd.Function`s that users define are recorded, in every thread.

    At most `max_bytes` of arguments are copied; calls that would exceed it are noted as skipped.
    `owner` says where a call is made, for its name. Nothing about the calls changes.
    """
    capture = Capture(max_bytes, owner or (lambda: ""))
    with _lock:
        _active.append(capture)
        if len(_active) == 1:
            _LEVEL.apply = classmethod(_apply)
    try:
        yield capture
    finally:
        with _lock:
            _active.remove(capture)
            if not _active:
                del _LEVEL.apply


def _apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    compiled = cast("Any", super(_LEVEL, cls))
    if cls.__module__.startswith(_NOT_USERS):
        return compiled.apply(*args, **kwargs)
    captures = tuple(_active)
    for capture in captures:
        _note(capture, cls, args)
    out = compiled.apply(*args, **kwargs)
    for capture in captures:
        with suppress(Exception):  # a higher derivative is then not asked for
            capture.follow(cls, args, out)
    return out


def _note(capture: Capture, function: type[Function], args: Sequence[Any]) -> None:
    """Our failure is not the program's."""
    try:
        capture.note(function, args)
    except Exception as error:
        why = f"the call could not be recorded: {type(error).__name__}: {error}"
        capture.skipped.append(Skipped(function.__name__, why))
