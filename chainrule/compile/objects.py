"""Where CPython keeps what an object's slots hold, so that machine code can look at it.

All of this is found out by looking; where an interpreter does it otherwise, nothing is found, and
nobody looks.
"""

from __future__ import annotations

import ctypes
from functools import cache
from sys import getrefcount
from typing import Any

from chainrule.graph import leaf, variable
from chainrule.node import Extra

_WORD = ctypes.sizeof(ctypes.c_void_p)


def word(address: int) -> int:
    """The word at an address."""
    return ctypes.c_int64.from_address(address).value


def _slot(thing: Any, held: Any) -> int | None:
    """At which distance from its address `thing` keeps a reference to `held`."""
    found = [
        at for at in range(0, type(thing).__basicsize__, _WORD) if word(id(thing) + at) == id(held)
    ]
    return found[0] if len(found) == 1 else None


@cache
def slots() -> tuple[int, int, int] | None:
    """The distances of a tensor's value, of its node, of the gradient of a node's `Extra`; None if
    they, or the reference count in an object's first word, are not there to be seen."""
    value = object()
    node = leaf((), None, needs=False)
    tensor = variable(value, node)
    extra = Extra(retain=False)
    extra.grad = value
    found = _slot(tensor, value), _slot(tensor, node), _slot(extra, value)
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
