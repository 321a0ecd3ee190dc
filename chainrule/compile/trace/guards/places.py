"""Places that a traced function read: what was there, and whether it still is.

A place knows a holder (a dictionary, a list, a cell, an object) and what the function found in it.
`holds` compares by value and takes an equal value over, `stays` by identity alone: the short way of
a call asks only that.
"""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from types import CellType
from typing import Any, final

import numpy as np

from chainrule.compile.trace.guards.values import keep_weakly, same
from chainrule.engine.op import Array

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "nothing"})()
"""What is found where a dictionary has no such key."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a place is called in the user's program, and the line that read it."""

    name: str
    line: str


@final
@dataclass(eq=False, slots=True, repr=False)
class Expected:
    """What was found under one key, and where it was read."""

    value: Callable[[], Any]
    reading: Reading
    fits: Callable[[Any], bool] | None = None
    """Takes another value over, if the program can be used with it."""


class Source(ABC):
    """Where a function read a value, and how to tell whether it is another one; abstract."""

    __slots__ = ()

    @abstractmethod
    def changed(self) -> tuple[Reading, Any, Any] | None:
        """The first reading that would find another value, with the old and the new one; None if
        there is none. Equal values are taken over."""

    @abstractmethod
    def stays(self) -> bool:
        """Whether the very objects are there that `changed` has seen last."""


def _now(found: Any, e: Expected) -> bool:
    """Whether `found` fits what is expected; an equal value or array is taken over."""
    old = e.value()
    if found is old:
        return True
    if not same(old, found) and (e.fits is None or not e.fits(found)):
        return False
    e.value = lambda: found
    return True


def takes_over(tensor: Any, found: Any) -> bool:
    """Whether an input of the program, for which the tensor stands, can be this array, and is."""
    old = tensor.value
    fits = (
        type(found) is np.ndarray
        and found.shape == old.shape
        and found.dtype == old.dtype
        and found.flags.aligned
    )
    if fits:
        tensor.value = found
    return fits


@final
@dataclass(eq=False, slots=True, repr=False)
class Names(Source):
    """Entries of a dictionary: of a module's names, an object's attributes, or the user's own.

    With `key_order` its keys, in their order, must be the same, too.
    """

    holder: dict[Any, Any]
    entries: dict[Any, Expected] = field(default_factory=dict[Any, Expected])
    key_order: tuple[list[Any], Reading] | None = None

    def changed(self) -> tuple[Reading, Any, Any] | None:
        """See `Source`."""
        if self.key_order is not None and list(self.holder) != self.key_order[0]:
            return self.key_order[1], self.key_order[0], list(self.holder)
        for key, e in self.entries.items():
            found = self.holder.get(key, ABSENT)
            if not _now(found, e):
                return e.reading, e.value(), found
        return None

    def stays(self) -> bool:
        """See `Source`."""
        get = self.holder.get
        if self.key_order is not None and list(self.holder) != self.key_order[0]:
            return False
        return all(get(key, ABSENT) is e.value() for key, e in self.entries.items())


@final
@dataclass(eq=False, slots=True, repr=False)
class Items(Source):
    """A list's length, and those of its items that were read."""

    holder: list[Any]
    length: int
    reading: Reading
    entries: dict[int, Expected] = field(default_factory=dict[int, Expected])

    def changed(self) -> tuple[Reading, Any, Any] | None:
        """See `Source`."""
        if len(self.holder) != self.length:
            return self.reading, f"{self.length} items", f"{len(self.holder)} items"
        for i, e in self.entries.items():
            if not _now(self.holder[i], e):
                return e.reading, e.value(), self.holder[i]
        return None

    def stays(self) -> bool:
        """See `Source`."""
        holder = self.holder
        return len(holder) == self.length and all(
            holder[i] is e.value() for i, e in self.entries.items()
        )


@final
@dataclass(eq=False, slots=True, repr=False)
class Closure(Source):
    """A variable of an enclosing function."""

    holder: CellType
    expected: Expected

    def _read(self) -> Any:
        try:
            return self.holder.cell_contents
        except ValueError:  # the name has no value
            return ABSENT

    def changed(self) -> tuple[Reading, Any, Any] | None:
        """See `Source`."""
        found = self._read()
        return None if _now(found, e := self.expected) else (e.reading, e.value(), found)

    def stays(self) -> bool:
        """See `Source`."""
        return self._read() is self.expected.value()


@final
@dataclass(eq=False, slots=True, repr=False)
class Answer(Source):
    """What a function without effects answers: an attribute that lies in no dictionary, the items
    of a set, the value of a context variable."""

    ask: Callable[[], Any]
    value: Any
    reading: Reading

    def changed(self) -> tuple[Reading, Any, Any] | None:
        """See `Source`."""
        found = self.ask()
        return None if _equal(self.value, found) else (self.reading, self.value, found)

    def stays(self) -> bool:
        """See `Source`."""
        found = self.ask()
        return found is self.value or _equal(self.value, found)


@final
@dataclass(eq=False, slots=True, repr=False)
class Defaults(Source):
    """The defaults of a function's parameters, and of those that are only given by name."""

    holder: Any
    values: tuple[tuple[Any, ...] | None, dict[str, Any] | None]
    reading: Reading

    def changed(self) -> tuple[Reading, Any, Any] | None:
        """See `Source`."""
        found = defaults_of(self.holder)
        if not all(map(same, self.values, found)):
            return self.reading, self.values, found
        self.values = found
        return None

    def stays(self) -> bool:
        """See `Source`."""
        return all(map(is_, self.values, defaults_of(self.holder)))


def defaults_of(f: Any) -> tuple[tuple[Any, ...] | None, dict[str, Any] | None]:
    """The values of `Defaults`."""
    return f.__defaults__, f.__kwdefaults__


def _equal(a: Any, b: Any) -> bool:
    """Whether two answers are the same: lists item by item, sets by what is in them."""
    if type(a) is list and type(b) is list:
        return len(a) == len(b) and all(map(same, a, b))
    return same(a, b)


@final
@dataclass(eq=False, slots=True, repr=False)
class Elements(Source):
    """The elements of an array of which the function did more than hand them to ops."""

    array: Array
    snapshot: Array
    reading: Reading

    def changed(self) -> tuple[Reading, Any, Any] | None:
        """See `Source`."""
        return None if self.stays() else (self.reading, self.snapshot, self.array)

    def stays(self) -> bool:
        """See `Source`."""
        a, b = self.array, self.snapshot
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def expected(value: Any, reading: Reading, gone: Callable[[Any], None]) -> Expected:
    """What `Expected` is for a value: only atoms and containers are kept alive by it."""
    return Expected(keep_weakly(value, gone), reading)
