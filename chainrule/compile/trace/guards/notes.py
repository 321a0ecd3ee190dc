"""Notes: what a function reads and writes while it is traced, collected for its `Guards`.

Only what was there before the trace counts: an object is *outer* if the function was given it, or
read it from an outer one. What it makes by itself it would make again.
"""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, final

import numpy as np

from chainrule.compile.trace.guards.guards import Guards
from chainrule.compile.trace.guards.lookup import (
    UNKNOWN,
    Attribute,
    attribute,
    instance_dict,
    names_of,
)
from chainrule.compile.trace.guards.places import (
    ABSENT,
    Answer,
    Closure,
    Elements,
    Expected,
    Items,
    Names,
    Reading,
    expected,
    takes_over,
)
from chainrule.compile.trace.guards.random_state import random_state
from chainrule.compile.trace.guards.values import is_atom, is_value, keep_weakly
from chainrule.compile.trace.guards.written_state import Written
from chainrule.engine.node import Variable
from chainrule.engine.provenance import location
from chainrule.errors import TraceError, describe

_LARGEST = 1 << 16
"""Bytes of an array whose elements are compared at every call. A larger one takes longer to compare
than many a step takes."""
Inner = Callable[[Any], bool]
"""Whether a tensor was made by the function that is traced."""


@final
class Notes:
    """What one run of a function reads and writes."""

    def __init__(self, inner: Inner) -> None:
        self.guards = Guards()
        self.at: tuple[CodeType, int] | None = None
        """The code and the offset of the instruction that runs now."""
        self.functions: list[FunctionType] = []
        """Functions of the user's that can run."""
        self._located: tuple[Any, str] = None, "?"
        self.arrays: dict[int, Any] = {}
        """Outer arrays by their address; the value is the tensor that stands for one in ops."""
        self.uses: dict[int, int] = {}
        """How often an op was given an outer array, by its address."""
        self._inner = inner
        self._outer: dict[int, Any] = {}
        self._text: dict[int, str] = {}
        self._names: dict[int, Names] = {}
        self._items: dict[int, Items] = {}
        self._cells: dict[int, CellType] = {}
        self.whole: set[tuple[int, Any]] = set()
        self._written = Written()
        self._slots: dict[int, list[Any]] = {}
        self.inspected: dict[int, Reading] = {}
        self._random: list[tuple[Any, Any, Reading]] = []

    @property
    def line(self) -> str:
        """File and line of the instruction that runs now."""
        if self._located[0] is not self.at and self.at is not None:
            self._located = self.at, location(*self.at)
        return self._located[1]

    def text(self, x: Any) -> str:
        """What the user calls an outer object."""
        return self._text.get(id(x), _name(x))

    # --- which objects are outer

    def is_outer(self, x: Any) -> bool:
        """Whether x was there before the trace, and may be another at a later call."""
        return id(x) in self._outer or isinstance(x, ModuleType | type)

    def add(self, x: Any, text: str) -> None:
        """Count x, which has the name `text`, and what a tuple holds, among the outer objects."""
        if id(x) in self._outer or is_atom(x):
            return
        self._outer[id(x)] = x
        self._text[id(x)] = text
        if is_value(x):
            return
        if isinstance(x, tuple):
            for i, part in enumerate(x):
                self.add(part, f"{text}[{i}]")
        elif type(x) is np.ndarray:
            self.arrays.setdefault(id(x), None)
        elif isinstance(x, MethodType):
            self.add(x.__self__, text)
        elif isinstance(x, partial):
            for part in (x.func, *x.args, *x.keywords.values()):
                self.add(part, text)
        elif (state := random_state(x)) is not None:
            self._random.append((x, state, self.reading(x)))

    def reading(self, holder: Any, rest: str = "") -> Reading:
        """A reading of a holder that is done by the line that runs now."""
        return Reading(self.text(holder) + rest, self.line)

    # --- what is read

    def entry(self, holder: dict[Any, Any], key: Any, name: str) -> None:
        """`holder[key]` is read; `name` is what the user calls it."""
        value = holder.get(key, ABSENT)
        if self._written.has(holder, key) or not self._can_change(value):
            return
        names = self.names_of(holder)
        if key not in names.entries:
            names.entries[key] = self._expect(value, Reading(name, self.line))
        if value is not ABSENT:
            self.add(value, name)

    def names_of(self, holder: dict[Any, Any]) -> Names:
        """The place for what is read of a dictionary."""
        names = self._names.get(id(holder))
        if names is None:
            names = self._names[id(holder)] = Names(holder)
            self.guards.sources.append(names)
        return names

    def _expect(self, value: Any, reading: Reading) -> Expected:
        """What is expected of a value that was read."""
        e = expected(value, reading, self.guards.invalidate)
        self._slots.setdefault(id(value), []).append(e)
        return e

    def _can_change(self, value: Any) -> bool:
        """Whether a value is one to be compared: a tensor that the function made is not."""
        return not (isinstance(value, Variable) and self._inner(value))

    def item(self, holder: list[Any], index: int) -> None:
        """`holder[index]` of a list is read."""
        items = self.items_of(holder)
        i = index % len(holder) if holder else 0
        if i in items.entries or self._written.has(holder, i) or i >= len(holder):
            return
        value = holder[i]
        if self._can_change(value):
            e = items.entries[i] = self._expect(value, self.reading(holder, f"[{index}]"))
            self.add(value, e.reading.name)

    def items_of(self, holder: list[Any]) -> Items:
        """The place for what is read of a list; its length is."""
        items = self._items.get(id(holder))
        if items is None:
            items = Items(holder, len(holder), self.reading(holder))
            self._items[id(holder)] = items
            self.guards.sources.append(items)
        return items

    def forget_items(self, holder: list[Any]) -> None:
        """The items of a list are looked at anew at each call; its length is not."""
        self.items_of(holder).entries.clear()

    def forget(self, holder: dict[Any, Any] | None, key: Any, cell: CellType | None) -> None:
        """What is in a dictionary under a key, or in a cell, is looked at anew at each call."""
        names = self._names.get(id(holder))
        if names is not None and holder is not None:
            names.entries.pop(key, None)
            if names.key_order is not None:  # machine code knows no keys of what changes
                keys, reading = names.key_order
                names.key_order = None
                self.ask(lambda: list(holder), keys, reading)
        sources = self.guards.sources
        sources[:] = [p for p in sources if not (isinstance(p, Closure) and p.holder is cell)]

    def cell(self, holder: CellType | None, name: str, value: Any) -> None:
        """A variable of an enclosing function is read."""
        if holder is None:
            return
        if id(holder) not in self._cells and not self._written.has(holder, None):
            self._cells[id(holder)] = holder
            if self._can_change(value):
                e = self._expect(value, Reading(name, self.line))
                self.guards.sources.append(Closure(holder, e))
        if value is not ABSENT:
            self.add(value, name)

    def attribute(self, x: Any, name: str) -> Attribute:
        """`x.name` is read."""
        found = attribute(x, name)
        if not self.is_outer(x):
            return found
        text = f"{self.text(x)}.{name}"
        for names, _ in found.dicts:
            self.entry(names, name, text)
        if found.slot and self._can_change(found.value):
            weak = keep_weakly(x, self.guards.invalidate)
            self.ask(lambda: getattr(weak(), name, UNKNOWN), found.value, Reading(text, self.line))
        if found.value is not UNKNOWN:
            self.add(found.value, text)
        return found

    def ask(self, ask: Callable[[], Any], value: Any, reading: Reading) -> None:
        """`ask`, which has no effect, gave `value`: a later call must get the same."""
        self.guards.sources.append(Answer(ask, value, reading))

    def answer(self, ask: Callable[[], Any], value: Any, name: str) -> None:
        """Something without effect was asked: a context variable, say."""
        if self._can_change(value):
            self.ask(ask, value, Reading(name, self.line))
            self.add(value, name)

    # --- what is written

    def write(self, holder: Any, key: Any, name: str) -> None:
        """`holder[key]`, or with the key None what a cell holds, is about to be written. A later
        call must find there what is there at the end, or do it again."""
        self._written.add(holder, key, Reading(name, self.line))

    def write_attribute(self, x: Any, name: str) -> None:
        """`x.name` is about to be written."""
        text = f"{self.text(x)}.{name}"
        found = attribute(x, name)
        names = names_of(x) if isinstance(x, type) else instance_dict(x)
        if found.slot or names is None:
            self._written.add(x, name, Reading(text, self.line))
        else:
            self.write(names, name, text)

    # --- arrays

    def is_array(self, x: Any) -> bool:
        """Whether x is an outer array."""
        return id(x) in self.arrays

    def op_takes(self, x: Any) -> Any | None:
        """An op takes the outer array x: the tensor that stands for it, if there is one."""
        self.uses[id(x)] = self.uses.get(id(x), 0) + 1
        return self.arrays[id(x)]

    def stand_in(self, x: Any, tensor: Any) -> None:
        """Let `tensor` stand for the outer array x."""
        self.arrays[id(x)] = tensor
        self.guards.arrays.append(tensor)

    # --- at the end

    def finish(self) -> Guards:
        """The guards. Raises `TraceError` for what cannot be guarded."""
        for x, state, reading in self._random:
            if not _same_state(random_state(x), state):
                raise TraceError(
                    f"a compiled function draws from {reading.name}, a {type(x).__name__}, read at "
                    f"{reading.line}: that would happen while it is traced, and never again. Draw "
                    "from a chainrule Generator, or draw outside and give it as an argument"
                )
        self._finish_arrays()
        written = self._written.sources(self._can_change, self._expect)
        self.guards.sources += list(written)
        return self.guards

    def _finish_arrays(self) -> None:
        """Guard arrays that were read otherwise than by ops; raises `TraceError` if one is too
        large."""
        for address, reading in self.inspected.items():
            array = self._outer[address]
            if array.nbytes > _LARGEST:
                raise TraceError(
                    f"a compiled function reads {reading.name}, {describe(array)}, at "
                    f"{reading.line}, otherwise than by an op: what it computes of it would stay "
                    "what it is now, and so large an array is not compared at every call. Give it "
                    "as an argument, make it a tensor, or compute with ops of chainrule"
                )
            self.guards.sources.append(Elements(array, array.copy(), reading))
        for address, tensor in self.arrays.items():
            slots = self._slots.get(address, ())
            if tensor is not None and len(slots) == 1 and address not in self.inspected:
                slots[0].fits = partial(takes_over, tensor)


def _name(x: Any) -> str:
    return getattr(x, "__name__", type(x).__name__)


def _same_state(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)
