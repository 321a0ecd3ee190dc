"""What a backward reads outside, and its forward has read as well, is it still what it was?

A Function's backward runs later than its forward. Between the two a temperature may be annealed, a
mask be drawn anew; on ctx the old one would have been kept. So plain numbers and tensors that both
read by the same words are noted when a forward has run, and again when PyTorch is about to run its
backward.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torch.autograd import Function

from chainrule.verify.pytorch.door import unseen
from chainrule.verify.pytorch.nested import tensors_in
from chainrule.verify.pytorch.observing.outer import Outer, backward_code, outers

_LARGEST = 1 << 18
"""Elements of a tensor that is copied at each call."""
_CALLS = 64
"""Calls of one class that are looked at."""


@dataclass(frozen=True, eq=False)
class Noted:
    """A value at some time: a plain number, or a copy of the tensor `of`."""

    value: Any
    of: Tensor | None = None

    @classmethod
    def at(cls, value: Any) -> Noted | None:
        """None for anything else, and for a tensor that is too large."""
        if isinstance(value, bool | int | float | complex):
            return cls(value)
        if not isinstance(value, Tensor) or value.numel() > _LARGEST or value.is_meta:
            return None
        return cls(value.detach().clone(), value)

    def is_now(self, value: Any) -> bool:
        """Whether it is the same still."""
        if self.of is None or not isinstance(value, Tensor):
            return self.of is None and _alike(self.value, value)
        return value.shape == self.value.shape and bool(_same(value.detach(), self.value))

    @property
    def is_rewritten(self) -> bool:
        """Whether it is a tensor that has been written to since."""
        return self.of is not None and not self.is_now(self.of)


Notes: TypeAlias = Mapping[Outer, Noted]


@dataclass(frozen=True, eq=False)
class Changed:
    """What a backward read outside when it had another value than for its forward."""

    function: type[Function]
    outer: Outer
    then: Noted
    now: Noted

    @contextmanager
    def being(self, noted: Noted) -> Generator[None]:
        """Inside, the function reads one of both values."""
        f = backward_code(self.function)
        before = self.outer.read(f)
        self.outer.write(f, noted.value)
        try:
            yield
        finally:
            self.outer.write(f, before)


class Outside:
    """Notes what forwards read outside, and compares when their backwards run."""

    def __init__(self) -> None:
        self.changed: dict[tuple[type[Function], Outer], Changed] = {}
        self._calls: dict[type[Function], int] = {}
        self._hooks: list[Any] = []

    def begins(self, function: type[Function]) -> Notes:
        """Note what a call that is about to be made will read."""
        count = self._calls.get(function, 0)
        found = outers(function) if torch.is_grad_enabled() and count < _CALLS else ()
        if not found:
            return {}
        f = backward_code(function)
        with unseen():
            notes = {o: n for o in found if (n := Noted.at(o.read(f))) is not None}
        self._calls[function] = count + bool(notes)
        return notes

    def ended(self, function: type[Function], notes: Notes, out: Any) -> None:
        """The call has been made. What it changed by itself, nobody else has changed."""
        if not notes:
            return
        f = backward_code(function)
        with unseen():
            notes = {o: n for o, n in notes.items() if n.is_now(o.read(f))}
            for node in {t.grad_fn: None for t in tensors_in(out)}:
                if getattr(type(node), "_forward_cls", None) is function:
                    hook = partial(self._runs, function, f, notes)
                    self._hooks.append(cast("Any", node).register_prehook(hook))

    def stop(self) -> None:
        """Compare no more."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _runs(self, function: type[Function], f: Any, notes: Notes, *_: Any) -> None:
        """PyTorch is about to run a backward; our failure is not the program's."""
        with suppress(Exception), unseen():
            for outer, then in notes.items():
                value = outer.read(f)
                now = None if then.is_now(value) else Noted.at(value)
                if now is not None:
                    row = Changed(function, outer, then, now)
                    self.changed.setdefault((function, outer), row)


def _alike(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


def _same(a: Tensor, b: Tensor) -> Tensor:
    return ((a == b) | ((a != a) & (b != b))).all()
