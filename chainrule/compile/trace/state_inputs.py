"""What a compiled call finds beside its arguments: state, gradients, numbers, random draws.

Notation: `t` a state tensor, `a` its array, `g` its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from sys import getrefcount
from typing import Any, final
from weakref import ref

import numpy as np

from chainrule.compile.cpu.object_layout import READY, place_of_key, slot
from chainrule.compile.trace.captured_state import NOWHERE, Entry, Range
from chainrule.engine.graph import variable
from chainrule.engine.node import Node
from chainrule.engine.op import Array, Spec


@final
@dataclass(eq=False, slots=True)
class Held:
    """A state tensor: an input, and with `updated` an output, too."""

    tensor: ref[Any]
    spec: Spec
    node: Node | None
    updated: bool
    checked_array: Any = field(default=lambda: None)
    """The array of the latest call that was checked, weakly; nothing when it is gone."""
    plain: bool = False
    """Whether that array can be given to the program as it is, if nobody else sees it."""

    def fits(self, a: Array, node: Node | None) -> bool:
        """Whether the program can take this array, and this need of a gradient."""
        was = self.node is not None and self.node.needs
        if (node is not None and node.needs) is not was:
            return False
        if a.shape != self.spec.shape or a.dtype != self.spec.dtype:
            return False
        self.node = node
        self.checked_array = ref(a)
        self.plain = is_writable(a) if self.updated else a.flags.num & READY == READY
        return True


@final
@dataclass(eq=False, slots=True)
class HeldGrad:
    """The gradient of a state tensor; `read` and `written` by the program.

    `first`: whether there must be one before the call, None if that does not matter. `last`:
    whether there is one afterwards, None if it stays as it is.
    """

    tensor: ref[Any]
    spec: Spec
    first: bool | None
    last: bool | None
    read: bool
    written: bool

    def array(self, g: Any) -> tuple[Array, bool] | None:
        """The array for the program, and whether it is a new one; None if `g` does not fit."""
        if g is not None:
            a = g.value
            if a.shape != self.spec.shape or a.dtype != self.spec.dtype:
                g = None
            elif not self.written or (
                getrefcount(g) <= OWN_VARIABLE and getrefcount(a) <= OWN and is_writable(a)
            ):
                return np.ascontiguousarray(a).reshape(a.shape), False
            elif self.read:
                return a.copy(order="C"), True
        return None if self.read else (np.empty(self.spec.shape, self.spec.dtype), True)


@final
@dataclass(eq=False, slots=True)
class Draw:
    """Random numbers that are drawn before every call; `read` by the program or only passed by."""

    take: Callable[[], Array]
    read: bool


@final
@dataclass(eq=False, slots=True)
class HeldNumber:
    """A Python number that is read before every call; if `truth` is known, it must stay so.

    `check` need not be asked about floats in the `range`.
    """

    entry: Entry
    check: Callable[[], None]
    truth: bool | None
    array: Array
    name: str
    range: Range
    last: Any = None
    read: Callable[[], float] = field(init=False)
    _words: list[int] | None = None

    def __post_init__(self) -> None:
        self.read = self.entry.reader()

    def words(self) -> list[int] | None:
        """What `cpu/call_settings.py` reads of it, `SETTING`; None if it cannot be seen there."""
        if self._words is None:
            self._words = self._find_words()
        return self._words

    def _find_words(self) -> list[int] | None:
        e, at = self.entry, _place_of_last()
        if at is None or e.holder.__class__ is not dict:
            return None
        item = -1 if e.item is None else e.item
        truth = -1 if self.truth is None else int(self.truth)
        limits = np.array(self.range).view(np.int64).tolist()
        place = [id(e.holder), id(e.key), item, id(tuple)]
        key = place_of_key(e.holder, e.key)
        return [*place, truth, id(self) + at, *limits, self.array.ctypes.data, *key]

    def fits(self, value: float) -> bool:
        """Take over another value than that of the latest call, if it fits."""
        self.check()
        if self.truth is not None and bool(value) is not self.truth:
            return False
        self.array[()] = value
        self.last = value
        return True


@cache
def _place_of_last() -> int | None:
    """How many bytes from the start of a `HeldNumber` its latest value is."""
    value: Any = object()
    entry = Entry({"lr": 0.1}, "lr", None)
    return slot(HeldNumber(entry, lambda: None, None, np.zeros(()), "lr", NOWHERE, value), value)


def is_writable(a: Array) -> bool:
    """Whether a program can write into an array."""
    return a.base is None and a.flags.carray


def _count_own() -> tuple[int, int]:
    """What `getrefcount` says of a tensor and of its array in a function whose argument it is, if
    only an object and the caller refer to it. This depends on the interpreter."""

    def counts(t: Any) -> tuple[int, int]:
        a = t.value
        return getrefcount(a), getrefcount(t)

    holder = variable(variable(np.zeros(3)))
    t = holder.value
    return counts(t)


OWN, OWN_VARIABLE = _count_own()
