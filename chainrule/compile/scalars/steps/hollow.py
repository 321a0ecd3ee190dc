"""Leaves whose numbers lie in arrays until somebody looks.

A compiled step trains thousands of Values, and mostly nobody looks at one between two steps. So
they are made *hollow*: their slots are empty, their class is `HollowLeaf`, of the same layout, and
their data and gradients are elements of two arrays. Whoever reads or writes one of them, or asks
for its class, has all filled again first, and then meets plain Values. Machine code that looks into
slots finds these empty, and leaves the rest to Python.
"""

# What Value keeps to itself is emptied and filled.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Protocol, final

import numpy as np

from chainrule.compile.scalars.lock import LOCK
from chainrule.compile.scalars.steps.effects import Effects, Outputs, index
from chainrule.compile.scalars.steps.memory import DATA, GRADIENT, Memory
from chainrule.engine.op import Array
from chainrule.scalar import Value

WORTH = 32
"""Steps without a look that are worth emptying all leaves once and filling them again."""
MOST = 256
"""Steps after which it is tried again, however often somebody looked."""

_SLOTS = {DATA: Value.__dict__["data"], GRADIENT: Value.__dict__["_g"]}
_OWNER = Value.__dict__["_a"]
"""A leaf has no operand: its arrays are noted there."""
_CLASS: Any = object.__dict__["__class__"]


def _filled(leaf: HollowLeaf) -> Value:
    """The same object as a plain Value."""
    with LOCK:
        if type(leaf) is HollowLeaf:
            leaf._a.fill()
    return leaf


@final
class HollowLeaf(Value):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    """A Value while its numbers are elsewhere: whatever is asked, it is filled first."""

    __slots__ = ()

    # fmt: off
    # ruff: noqa: D102
    @property
    def __class__(self) -> type: return _CLASS.__get__(_filled(self))
    @__class__.setter
    def __class__(self, kind: type) -> None: _CLASS.__set__(_filled(self), kind)
    @property
    def data(self) -> Any: return _filled(self).data
    @data.setter
    def data(self, x: Any) -> None: _filled(self).data = x
    @data.deleter
    def data(self) -> None: del _filled(self).data
    @property
    def _g(self) -> Any: return _filled(self)._g
    @_g.setter
    def _g(self, x: Any) -> None: _filled(self)._g = x
    @property
    def _a(self) -> Any: return _OWNER.__get__(self)
    @_a.setter
    def _a(self, x: Any) -> None: _filled(self)._a = x
    def __reduce_ex__(self, protocol: Any) -> Any: return _filled(self).__reduce_ex__(protocol)
    # fmt: on


HollowLeaf.__name__, HollowLeaf.__qualname__ = Value.__name__, Value.__qualname__
HollowLeaf.__module__ = Value.__module__


class Filled(Protocol):
    """What may be empty."""

    def fill(self) -> None:
        """Fill it."""
        ...


@final
class Leaves:
    """Values without operands, and arrays of their data and gradients, in that order."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.values = tuple(values)
        self.numbers: dict[Any, Array] = {(k,): np.zeros(len(values)) for k in _SLOTS}
        self._memories = {(k,): Memory(k, self.values) for k in _SLOTS}
        self.lists: Sequence[Filled] = ()
        """What is filled with them."""
        self.steps = 0
        """Steps since they were emptied, or since they were filled."""
        self._wait = 0
        """Steps that have to pass before they are emptied."""
        self._effects: Effects | None = None
        self._objects: dict[Any, list[Any]] = {}
        """What was in the slots when they were emptied."""
        self._marks: dict[Any, Array] = {}
        self._things: list[Any] = []

    def move(self, kind: Any, numbers: Array) -> None:
        """Let this be the array of a kind."""
        numbers[:] = self.numbers[kind]
        self.numbers[kind] = numbers

    @property
    def hollow(self) -> bool:
        """Whether their numbers are in the arrays only."""
        first = self.values[0] if self.values else None
        return type(first) is HollowLeaf and _OWNER.__get__(first) is self

    def load(self, kinds: Iterable[Any]) -> None:
        """Let the arrays of these kinds have the numbers as they are now."""
        if not self.hollow:
            for kind in kinds:
                if kind in self._memories:
                    self._memories[kind].read(self.numbers[kind])

    def follows(self, effects: Effects) -> bool:
        """Whether they are hollow, and were written by a step with these effects last."""
        return effects is self._effects and self.hollow

    def count_step(self) -> None:
        """Note that a step has written to the arrays."""
        self.steps += 1

    def store(self, effects: Effects, found: Outputs) -> None:
        """Write what a step with these effects writes: outputs of its update."""
        self.steps += 1
        new = effects is not self._effects
        for w in effects.writes:
            if w.kind in self.numbers:
                self.numbers[w.kind][index(w.among)] = found(w.start, w.stop)
        if self.hollow:
            if new:
                self._mark(effects)
            return
        for w in effects.writes:
            if w.kind in self.numbers:
                self._memories[w.kind].write(found(w.start, w.stop), w.among)
        for f in effects.fills:
            if f.kind in self.numbers:
                self._memories[f.kind].fill(f.thing, f.among)

    def rest(self) -> None:
        """A step is over: make them hollow, if that is worth it."""
        if self.steps > self._wait and not self.hollow:
            self._empty()

    def _mark(self, effects: Effects) -> None:
        """Note where numbers of the arrays stand for what the program has, and where it has the
        very object that a step writes."""
        self._effects = effects
        for w in effects.writes:
            if w.kind in self.numbers:
                self._marks[w.kind][index(w.among)] = _NUMBER
        for f in effects.fills:
            if f.kind in self.numbers:
                self.numbers[f.kind][index(f.among)] = f.thing
                self._marks[f.kind][index(f.among)] = len(self._things)
                self._things.append(f.thing)

    def _empty(self) -> None:
        """Make them hollow."""
        values = self.values
        self.load(self.numbers)  # fills those of another step
        if set(map(type, values)) != {Value}:
            return
        objects: dict[Any, list[Any]] = {}
        for kind, slot in _by_kind():
            found: Iterable[Any] = map(slot.__get__, values)
            objects[kind] = list(found)
        self._objects = objects
        self._marks = {kind: np.full(len(values), _AS_IT_WAS) for kind in objects}
        self._things, self._effects = [], None
        self.steps = 0
        try:
            _each(_OWNER.__set__, values, repeat(self))
            _each(_CLASS.__set__, values, repeat(HollowLeaf))
            for _, slot in _by_kind():
                _each(slot.__delete__, values)
        except BaseException:
            self.fill()
            raise

    def fill(self) -> None:
        """Make them plain Values again. If that is interrupted, the next look does it."""
        if not self.hollow:
            return
        for x in self.lists:
            x.fill()
        for kind, slot in _by_kind():
            _each(slot.__set__, self.values, self._now(kind))
        self._wait = 0 if self.steps >= WORTH else min(MOST, max(WORTH, 2 * self._wait))
        self.steps = 0
        _each(_CLASS.__set__, self.values, repeat(Value))
        _each(_OWNER.__delete__, self.values)

    def _now(self, kind: Any) -> list[Any]:
        """What the program has there."""
        marks = self._marks[kind]
        first = int(marks[0])
        if first >= 0 and (marks == first).all():
            return [self._things[first]] * len(marks)
        out = self.numbers[kind].tolist()
        if not (marks == _NUMBER).all():
            for i, mark in enumerate(marks.tolist()):
                if mark != _NUMBER:
                    out[i] = self._objects[kind][i] if mark == _AS_IT_WAS else self._things[mark]
        return out


_AS_IT_WAS, _NUMBER = -2, -1


def _by_kind() -> Iterable[tuple[Any, Any]]:
    return [((k,), slot) for k, slot in _SLOTS.items()]


def _each(f: Callable[..., Any], *xs: Iterable[Any]) -> None:
    """Call it for all of them, with no Python in between that could be interrupted."""
    deque(map(f, *xs), maxlen=0)
