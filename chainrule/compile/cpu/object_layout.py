"""Where CPython and NumPy keep what objects hold, so that machine code can look at it.

What is not found out by looking is made sure of by looking; where it is otherwise, nothing is
found, and nobody looks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from sys import getrefcount, getsizeof
from threading import Lock
from types import CellType
from typing import Any, final

import numpy as np

from chainrule.engine.graph import leaf, variable
from chainrule.engine.node import Extra

_WORD = ctypes.sizeof(ctypes.c_void_p)
KIND, LENGTH, ITEMS = _WORD, 2 * _WORD, 3 * _WORD
"""Bytes from the start of an object to its class, of a tuple to its length and its items."""
READY = 0x101
"""The bits of an array's flags that say that it is C-contiguous and aligned."""


class ARRAY:
    """Bytes from the start of a NumPy array to what it holds."""

    data, axes, shape, dtype, flags = (_WORD * n for n in (2, 3, 4, 7, 8))


def word(address: int) -> int:
    """The word at an address."""
    return ctypes.c_int64.from_address(address).value


def slot(thing: Any, held: Any) -> int | None:
    """At which distance from its address `thing` keeps its only reference to `held`; None if that
    is not to be seen."""
    found = [
        at for at in range(0, type(thing).__basicsize__, _WORD) if word(id(thing) + at) == id(held)
    ]
    return found[0] if len(found) == 1 else None


@cache
def slots() -> tuple[int, int, int] | None:
    """The distances of a tensor's value, of its node, of the gradient of a node's `Extra`. None if
    one of them is not to be seen, or the reference count in an object's first word is not."""
    value = object()
    node = leaf((), None, needs=False)
    tensor = variable(value, node)
    extra = Extra(retain=False)
    extra.grad = value
    found = slot(tensor, value), slot(tensor, node), slot(extra, value)
    if None in found or not _counts():
        return None
    return found  # type: ignore[return-value]


def _counts() -> bool:
    """Whether an object's first word is its reference count."""
    thing = object()
    before = word(id(thing)), getrefcount(thing)
    more = [thing] * 3
    after = word(id(thing)), getrefcount(thing)
    return len(more) == 3 and after == (before[0] + 3, before[1] + 3)


@cache
def arrays_are_known() -> bool:
    """Whether arrays and tuples hold things where this file says."""
    items = (object(), object())
    if [word(id(items) + at) for at in (KIND, LENGTH, ITEMS)] != [id(tuple), 2, id(items[0])]:
        return False
    arrays = [np.zeros(()), np.zeros((3, 5, 2)), np.zeros((3, 5, 2)).T]
    return all(map(_is_known, arrays))


def _is_known(a: Any) -> bool:
    held = [word(id(a) + at) for at in (ARRAY.data, ARRAY.dtype, KIND)]
    if held != [a.ctypes.data, id(a.dtype), id(np.ndarray)]:
        return False
    axes, flags = (_small(id(a) + at) for at in (ARRAY.axes, ARRAY.flags))
    if axes != a.ndim or flags & READY != a.flags.num & READY:
        return False
    return [word(word(id(a) + ARRAY.shape) + _WORD * i) for i in range(a.ndim)] == list(a.shape)


@cache
def locked_byte() -> int | None:
    """At which distance a lock has a byte that is 0 just while nobody has locked it; None if that
    is not to be seen."""
    lock = Lock()

    def states() -> list[int]:
        return list((ctypes.c_ubyte * type(lock).__basicsize__).from_address(id(lock)))

    free = states()
    with lock:
        taken = states()
    with lock:
        again = states()
    pairs = enumerate(zip(free, taken, again, states(), strict=True))
    found = [i for i, (a, b, c, d) in pairs if (a, b, c, d) == (0, 1, 1, 0)]
    return found[0] if len(found) == 1 else None


class KEYS:
    """Bytes from the start of a dictionary to the address of its table of keys, and to that of
    values that lie elsewhere; bytes from the start of a table to what says how it is laid out."""

    at, values, form = (_WORD * n for n in (4, 5, 1))


def place_of_key(names: Mapping[Any, Any], key: Any) -> tuple[int, int, int]:
    """Where a dictionary has its very key, followed by the value: the table's address, what says
    how it is laid out, bytes from its start. Zeros if that is not to be seen."""
    if not _tables_are_known() or word(id(names) + KEYS.values):
        return 0, 0, 0
    return _find_key(names, key)


def _find_key(names: Mapping[Any, Any], key: Any) -> tuple[int, int, int]:
    table = word(id(names) + KEYS.at)
    size = getsizeof(names) - getsizeof({})
    if key not in names or not table or size <= 0:
        return 0, 0, 0
    words = list((ctypes.c_int64 * (size // _WORD)).from_address(table))
    pair = [id(key), id(names[key])]
    found = [i for i in range(3, len(words) - 1) if words[i : i + 2] == pair]
    return (table, _small(table + KEYS.form), found[0] * _WORD) if len(found) == 1 else (0, 0, 0)


@cache
def _tables_are_known() -> bool:
    """Whether a value that changes is seen after its key, a key that is gone is not, and a table
    of another size is another table or says so."""
    names: dict[str, object] = {f"name {i}": object() for i in range(5)}
    key = [*names][2]
    table, form, at = _find_key(names, key)
    if not table:
        return False
    names[key] = changed = object()
    seen = word(id(names) + KEYS.at) == table and word(table + at + _WORD) == id(changed)
    del names[key]
    gone = word(id(names) + KEYS.at) != table or word(table + at) != id(key)
    names |= {f"more {i}": None for i in range(50)}
    other = word(id(names) + KEYS.at), _small(word(id(names) + KEYS.at) + KEYS.form)
    return seen and gone and other != (table, form)


@final
@dataclass(frozen=True, slots=True)
class Holders:
    """How many bytes from the start of an object what it holds is to be found."""

    length: int
    """Of a list: its length."""
    items: int
    """Of a list: the address of its items."""
    cell: int
    """Of a cell: the address of what is in it."""
    defaults: tuple[int, int] | None
    """Of a function: its defaults, and those of parameters that are only given by name."""
    version: int
    """Of a dictionary: a word that is another one after each change; 0 if there is no such word."""
    word: Callable[[int], int] = word


@cache
def holders() -> Holders | None:
    """Where containers hold things; None if that is not there to be seen."""
    one, two = object(), object()
    found = [one, two]
    items = word(id(found) + 3 * _WORD)
    if word(id(found) + 2 * _WORD) != 2 or [word(items), word(items + _WORD)] != [id(one), id(two)]:
        return None
    cell = CellType(one)
    if word(id(cell) + 2 * _WORD) != id(one):
        return None
    version = 3 * _WORD if _versions() else 0
    return Holders(2 * _WORD, 3 * _WORD, 2 * _WORD, _defaults(), version)


def _defaults() -> tuple[int, int] | None:
    def f(x: int = 0, *, y: int = 0) -> int:
        return x + y

    found = slot(f, f.__defaults__), slot(f, f.__kwdefaults__)
    return None if None in found else found  # type: ignore[return-value]


def _versions() -> bool:
    """Whether every change of a dictionary changes its fourth word: a change of its keys, of its
    values, or of an attribute of the object that it belongs to."""
    names: dict[str, object] = {"a": object()}
    seen = [word(id(names) + 3 * _WORD)]
    for change in (_replace, _add, _remove, _replace):
        change(names)
        seen.append(word(id(names) + 3 * _WORD))
    return len(set(seen)) == len(seen) and _versions_of_attributes()


def _versions_of_attributes() -> bool:
    """The same of an object's dictionary. From Python 3.13 on the values of attributes can lie in
    the object itself. Code that has run often stores them there, past the dictionary."""
    thing = _Thing()
    names = thing.__dict__
    seen = [word(id(names) + 3 * _WORD)]
    for _ in range(_OFTEN):
        thing.a = object()
        seen.append(word(id(names) + 3 * _WORD))
    return len(set(seen)) == len(seen)


class _Thing:
    def __init__(self) -> None:
        self.a = object()


_OFTEN = 200
"""More runs than an interpreter needs before it replaces an instruction by a faster one."""


def _replace(names: dict[str, object]) -> None:
    names["a"] = object()


def _add(names: dict[str, object]) -> None:
    names["b"] = object()


def _remove(names: dict[str, object]) -> None:
    del names["b"]


def _small(address: int) -> int:
    return ctypes.c_int32.from_address(address).value
