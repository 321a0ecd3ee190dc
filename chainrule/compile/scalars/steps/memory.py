"""Reading and writing numbers where the program has them: in Values, and in lists."""

# What Value keeps to itself is looked at where it lies.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, final

import numpy as np

from chainrule.compile.cpu.object_layout import holders, word
from chainrule.compile.scalars.slots import Addresses, code, value_slots
from chainrule.engine.op import Array

DATA, GRADIENT, LIST = "data", "gradient", "list"


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
