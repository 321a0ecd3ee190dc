"""The numbers that a step can change: data and gradients of Values, and the items of lists.

They stay where the program has them. Each call reads them there and writes them there, in machine
code: what runs between two calls finds them as the program itself would have left them.
"""

# What Value keeps to itself is looked at where it lies; lists may hold anything.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, cast, final

import numpy as np

from chainrule.compile.cpu.object_layout import holders, word
from chainrule.compile.scalars.leaves import Addresses, code, value_slots
from chainrule.compile.scalars.reroll.containers import PLAIN, parts
from chainrule.compile.scalars.steps.numbers import TracedNumber
from chainrule.engine.op import Array
from chainrule.scalar import Value
from chainrule.scalar.value import _APART

DATA, GRADIENT, LIST = "data", "gradient", "list"


@final
class State:
    """The Values without operands and the lists of numbers that `roots` refer to. Lists of nothing
    but ints are apart: they count only if a step puts floats there."""

    def __init__(self, roots: Sequence[Any]) -> None:
        self.values: list[Value] = []
        self.lists: list[list[Any]] = []
        self.ints: list[list[Any]] = []
        self._others: list[tuple[Any, list[tuple[Any, Any]]]] = []
        """Everything else that can be reached, with what it refers to."""
        for x in _reached(roots):
            if isinstance(x, Value):
                if x._made is None and (x._chain is None or x._chain is _APART):
                    self.values.append(x)
            elif _is_numbers(x):
                kind = self.lists if float in map(type, x) else self.ints
                kind.append(x)
            else:
                self._others.append((x, list(parts(x))))

    def numbers(self) -> list[Any]:
        """All numbers, as they are now."""
        out: list[Any] = [x for v in self.values for x in (v.data, v._g)]
        return out + [x for held in self.lists for x in held]

    def saved(self) -> Callable[[], None]:
        """What puts back all numbers as they are now."""
        data = [v.data for v in self.values]
        gradients = [v._g for v in self.values]
        lists = [*self.lists, *self.ints]
        items = [list(x) for x in lists]

        def put_back() -> None:
            for v, x, g in zip(self.values, data, gradients, strict=True):
                v.data, v._g = x, g
            for held, x in zip(lists, items, strict=True):
                held[:] = x
            for holder, before in self._others:
                _restore(holder, before)

        return put_back

    def changed(self) -> str | None:
        """What refers to something else now, and is no part of the state, in words."""
        for holder, before in self._others:
            now = list(parts(holder))
            if len(now) != len(before):
                return f"a {type(holder).__name__} of {len(before)} entries, which has {len(now)}"
            for (name, x), (other, y) in zip(before, now, strict=True):
                if x is not y or name != other:
                    return f"{name!r}" if isinstance(name, str) else f"a {type(holder).__name__}"
        return None


def _is_numbers(x: Any) -> bool:
    """Whether it is a list of numbers."""
    if type(x) is not list:
        return False
    kinds = set(map(type, _items(x)))
    return bool(kinds) and kinds <= {float, int}


def _items(x: Any) -> list[Any]:
    return x


def _restore(holder: Any, before: list[tuple[Any, Any]]) -> None:
    """Let it refer to that again."""
    now = list(parts(holder))
    if len(now) == len(before) and all(
        x is y and n == m for (n, x), (m, y) in zip(before, now, strict=True)
    ):
        return
    if isinstance(holder, list):
        _items(holder)[:] = [x for _, x in before]
    elif isinstance(holder, FunctionType):
        cells = dict(zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=True))
        for name, x in before:
            if name in cells:
                cells[name].cell_contents = x
            elif name in holder.__globals__:
                holder.__globals__[name] = x
    elif isinstance(holder, set):
        held = cast("set[Any]", holder)
        held.clear()
        held.update([x for _, x in before])
    else:
        names = cast("Any", holder if isinstance(holder, dict) else vars(holder))
        if type(names) is dict:
            entries = cast("dict[Any, Any]", names)
            entries.clear()
            entries.update(before)


def _reached(roots: Sequence[Any]) -> list[Any]:
    """All that these refer to, through containers, objects and functions."""
    queue = list(roots)
    seen = set(map(id, queue))
    for x in queue:
        if isinstance(x, Value):
            continue
        for _, y in parts(x):
            if id(y) not in seen and not isinstance(y, PLAIN) and type(y) is not TracedNumber:
                seen.add(id(y))
                queue.append(y)
    return queue


@final
class Memory:
    """Slots that are read and written together: data or gradients of Values, items of a list."""

    def __init__(self, kind: str, holder: Any) -> None:
        self._kind = kind
        self._holder = holder
        self.count = len(holder)
        self._code = code()
        self._items = 0
        self._slots: Addresses = np.zeros(0, np.int64)
        if kind != LIST:
            self._slots = value_slots(holder)[0 if kind == DATA else 1]

    def _addresses(self) -> Addresses:
        layout = holders()
        if self._kind == LIST and layout is not None:
            items = word(id(self._holder) + layout.items)
            if items != self._items:  # the list has other memory now
                self._items = items
                self._slots = items + 8 * np.arange(self.count, dtype=np.int64)
        return self._slots

    def _machine(self) -> Any:
        if self._kind == LIST and (holders() is None or len(self._holder) != self.count):
            return None
        return self._code

    def read(self, out: Array) -> None:
        """Write the numbers into `out`."""
        done, machine = 0, self._machine()
        if machine is not None:
            done = machine.read(self._addresses().ctypes.data, self.count, out.ctypes.data)
        if done < self.count:
            out[done:] = [self._get(i) for i in range(done, self.count)]

    def write(self, numbers: Array, among: Addresses | None = None) -> None:
        """Let these be the numbers, at all places or `among` these."""
        slots, machine, done = self._addresses(), self._machine(), 0
        n = self.count if among is None else len(among)
        if machine is not None:
            chosen = slots if among is None else slots[among]
            done = machine.write(chosen.ctypes.data, n, numbers.ctypes.data)
        for i in range(done, n):
            self._set(i if among is None else int(among[i]), float(numbers[i]))

    def fill(self, thing: Any, among: Addresses | None = None) -> None:
        """Let this very object be there."""
        slots, machine, done = self._addresses(), self._machine(), 0
        n = self.count if among is None else len(among)
        if machine is not None:
            chosen = slots if among is None else slots[among]
            done = machine.fill(chosen.ctypes.data, n, id(thing))
        for i in range(done, n):
            self._set(i if among is None else int(among[i]), thing)

    def _get(self, i: int) -> Any:
        x = self._holder[i]
        return x if self._kind == LIST else x.data if self._kind == DATA else x._g

    def _set(self, i: int, x: Any) -> None:
        if self._kind == LIST:
            self._holder[i] = x
        elif self._kind == DATA:
            self._holder[i].data = x
        else:
            self._holder[i]._g = x
