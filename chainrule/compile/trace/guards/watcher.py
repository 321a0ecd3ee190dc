"""All guards as one question to machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from chainrule.compile.trace.guards.guards import Guards


def watcher(
    guards: Guards, unchanged: Callable[[Any, int], int], guarded: Callable[[int], int]
) -> Callable[[], bool]:
    """Tells whether the very objects are where they are now; `unchanged` and `guarded` are the
    functions of `cpu/word_guards.py` and `cpu/dict_guards.py`."""
    rows, groups = guards.rows(), guards.groups()
    words = (ctypes.c_int64 * len(rows))(*rows)
    count, address = len(rows) // 2, groups.ctypes.data
    asked = [p.stays for p in guards.asked()]

    def stays() -> bool:
        # `groups` is kept with `address`, which lies in it
        same = bool(guards.alive) and bool(unchanged(words, count)) and bool(guarded(address))
        return same and groups is not None and all(ask() for ask in asked)

    return stays
