"""All guards as one question to machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from chainrule.compile.cpu.word_guards import joined
from chainrule.compile.trace.guards.guards import Guards


def watcher(
    guards: Guards, unchanged: Callable[[Any, int], int], guarded: Callable[[int], int]
) -> Callable[[], bool]:
    """Tells whether the very objects are where they are now; `unchanged` and `guarded` are
    `rows_unchanged` of `cpu/word_guards.py` and the function of `cpu/dict_guards.py`."""
    found, groups = joined(guards.rows()), guards.groups()
    words = [(ctypes.c_int64 * len(x))(*x) for _, x in found]
    places = zip(found, words, strict=True)
    rows = [n for (at, x), to in places for n in (at, len(x), ctypes.addressof(to))]
    seen = (ctypes.c_int64 * len(rows))(*rows)
    count, address = len(found), groups.ctypes.data
    asked = [p.stays for p in guards.asked()]

    def stays() -> bool:
        # `groups` and `words` are kept with the addresses that lie in them
        same = bool(guards.alive) and bool(unchanged(seen, count)) and bool(guarded(address))
        return same and groups is not None and len(words) == count and all(ask() for ask in asked)

    return stays
