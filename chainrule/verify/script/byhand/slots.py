"""Parameters that a script updates itself: what is there, and the gradient that it would take off.

A rewritten update (`updates.py`) hands over parameter and gradient. Parameters are known by the
memory in which they lie; a number that somebody holds gets memory of its own for that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast, final

import numpy as np

from chainrule.verify.arrays.members import walk
from chainrule.verify.script.byhand.script_state import array_of, is_tensor
from chainrule.verify.script.byhand.step import spellings
from chainrule.verify.subject import Array
from chainrule.verify.user_frames import Line, here

_MOVE = 1e-3
MOST = 64
"""Parameters of a step."""


class ShapeError(Exception):
    """A gradient has not the shape of its parameter; the message says which it has."""


@dataclass(eq=False)
class Slot:
    """A parameter, and the gradient that the last run left for it."""

    held: Any
    """The array or tensor, as the script holds it."""
    array: Array
    """The same memory, whole."""
    written: set[str]
    """What updates call it."""
    at: Line | None
    """The line of the first one."""
    times: int = 0
    """How often it was updated in the last run."""
    gradient: Array | None = None
    last: Array | None = None
    """What the last update of it handed over."""
    names: list[str] = field(default_factory=list[str])
    owner: type[Any] | None = None
    """The class of the object of which it is an attribute."""


@final
class Slots:
    """What rewritten updates call; by what they hand over, the parameters of a step."""

    def __init__(self) -> None:
        self._known: dict[int, Slot] = {}
        self._housed: list[Callable[[], object]] = []
        """What gives numbers their memory."""
        self.moved: Slot | None = None
        """The parameter that updates change all the same, by numbers of no meaning."""
        self.repeats: dict[str, Line] = {}
        """Updates of some elements, as written, some of them more than once: only one counts."""
        self.moves_at: Sequence[int] = ()
        """Which update changes it, from 1 (at 0 it is changed from the beginning), and which one
        changes it back."""
        self._by = np.zeros(())

    def __iter__(self) -> Iterator[Slot]:
        yield from self._known.values()

    def _house(self, put: Callable[[], object]) -> None:
        self._housed.append(put)
        put()

    def settle(self) -> None:
        """Put the memory that numbers have got where the script holds them, once more."""
        for put in self._housed:
            put()

    def forget(self) -> None:
        """Gradients are those of the next run."""
        for slot in self._known.values():
            slot.gradient, slot.last, slot.times = None, None, 0

    def move(self, slot: Slot) -> None:
        """Change a parameter, if it is this one's turn, or change it back."""
        if slot is self.moved and slot.times in self.moves_at:
            if slot.times == self.moves_at[0]:
                self._by = _MOVE * (1 + np.abs(slot.array))
            slot.array[...] += self._by if slot.times == self.moves_at[0] else -self._by

    # What rewritten updates call. `written` is how one calls its parameter.

    def value(self, written: str, x: Any, gradient: Any) -> Any:
        """`x -= gradient`, with x an array; x."""
        self._left(written, x, gradient)
        return x

    def attribute(self, written: str, holder: Any, name: str, gradient: Any) -> Any:
        """The same of an attribute; what it is. `.data` of a tensor is that tensor."""
        x = holder if name == "data" and is_tensor(holder) else getattr(holder, name)
        if _is_number(x):
            x = np.array(float(x))
            self._house(partial(setattr, holder, name, x))
        self.value(written, x, gradient)
        if (slot := self._slot(x)) is not None:
            slot.owner = type(holder)
        return x

    def item(self, written: str, holder: Any, key: Any, gradient: Any) -> Any:
        """The same of some elements of an array, or of what a list or dict holds; what it is."""
        if (whole := array_of(holder)) is not None:
            if (at := here()) is not None and _has_repeats(whole, key):
                self.repeats[written] = at
            return self.at(written, holder, key, gradient)
        x = holder[key]
        if _is_number(x):
            x = np.array(float(x))
            self._house(partial(operator.setitem, holder, key, x))
        return self.value(written, x, gradient)

    def at(self, written: str, x: Any, index: Any, gradient: Any) -> Any:
        """`np.subtract.at(x, index, gradient)`; what is there."""
        if (whole := array_of(x)) is not None:
            g = np.zeros(whole.shape)
            np.add.at(g, _plain(index), _plain(gradient))
            self._left(written, x, g)
        return x[index]

    def _slot(self, x: Any) -> Slot | None:
        array = array_of(x)
        return None if array is None else self._known.get(array.__array_interface__["data"][0])

    def _left(self, written: str, x: Any, gradient: Any) -> None:
        """Note that a parameter in this memory was left with a gradient."""
        array, g = array_of(x), np.asarray(_plain(gradient))
        if array is None or array.dtype.kind != "f":
            return
        base, view = _memory(array)
        key = base.__array_interface__["data"][0]
        slot = self._known.get(key)
        if slot is None:
            slot = Slot(x if view is None else base, base, set(), here())
            self._known[key] = slot
        slot.written.add(written)
        if slot.last is not None and np.array_equal(slot.last, g):
            return  # the same step, as long as another: a search along it
        slot.last = g.copy()
        slot.times += 1
        if slot.gradient is None:
            slot.gradient = np.zeros(base.shape)
        into = slot.gradient if view is None else view(slot.gradient)
        if into.shape != g.shape and into.size == g.size:
            g = g.reshape(into.shape)  # a column for a row, as where the update makes it one
        try:
            into += g
        except ValueError:
            says = f"{list(g.shape)} for a parameter of shape {list(into.shape)}"
            raise ShapeError(says) from None
        self.move(slot)


def named(slots: Slots, scope: Mapping[str, Any], passing: Container[str]) -> Sequence[Slot]:
    """The slots that the script holds, with what it calls them, in its order; not by the names of
    `passing` variables, which a turn gives."""
    found = dict[int, Slot]()
    by_memory = {s.array.__array_interface__["data"][0]: s for s in slots}
    for way, x in walk(dict(scope)):
        array = array_of(x)
        if array is None or is_part(array):
            continue
        slot = by_memory.get(array.__array_interface__["data"][0])
        is_it = slot is not None and slot.array.shape == array.shape
        if slot is not None and is_it and way.steps[0][1] not in passing:
            slot.names += spellings(way.steps)
            found[id(slot)] = slot
    return list(found.values())


def _has_repeats(x: Array, key: Any) -> bool:
    """Whether an index has some elements of an array more than once."""
    keys: tuple[Any, ...] = (key,) if not isinstance(key, tuple) else cast("Any", key)
    if not any(np.ndim(_plain(k)) and not isinstance(k, slice) for k in keys):
        return False
    counts = np.zeros(x.shape, np.int32)
    np.add.at(counts, _plain(key), 1)
    return bool(counts.max(initial=0) > 1)


def _plain(x: Any) -> Any:
    """What NumPy takes for it: an index, or numbers."""
    if isinstance(x, tuple):
        return tuple(map(_plain, cast("tuple[Any, ...]", x)))
    if x is None or x is Ellipsis or isinstance(x, slice | int):
        return cast("Any", x)
    array = array_of(x)
    return np.asarray(x) if array is None else array


def _memory(x: Array) -> tuple[Array, Callable[[Array], Array] | None]:
    """The whole of which an array is a part, and how the same part of another one is found; None
    if it is no part."""
    base: Any = x.base
    if not is_part(x) or base.dtype != x.dtype or not base.flags.c_contiguous:
        return x, None
    offset = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]

    def part(other: Array) -> Array:
        scale = other.itemsize / x.itemsize
        strides = tuple([int(s * scale) for s in x.strides])
        return np.ndarray(x.shape, other.dtype, other.data, int(offset * scale), strides)

    return cast("Array", base), part


def is_part(x: Array) -> bool:
    """Whether it is a part of another array."""
    return isinstance(x.base, np.ndarray) and x.base.size != x.size


def _is_number(x: Any) -> bool:
    return isinstance(x, float | int | np.floating) and not isinstance(x, bool)
