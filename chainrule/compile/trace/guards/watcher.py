"""All guards as one question to machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.word_guards import joined
from chainrule.compile.trace.guards.guards import Guards


@final
class Watcher:
    """Tells whether the very objects are where they are now; `unchanged` and `guarded` are
    `rows_unchanged` of `cpu/word_guards.py` and the function of `cpu/dict_guards.py`."""

    def __init__(
        self, guards: Guards, unchanged: Callable[[Any, int], int], guarded: Callable[[int], int]
    ) -> None:
        self._alive = guards.alive
        self._unchanged, self._guarded = unchanged, guarded
        self.count, rows = joined(guards.rows())
        self._rows, self._groups = np.array(rows, np.int64), guards.groups()
        self.rows, self.groups = self._rows.ctypes.data, self._groups.ctypes.data
        """Where the words of `count` rows, and those about dictionaries, lie."""
        self.asked = [p.stays for p in guards.asked()]
        """What Python has to ask beside."""

    def __call__(self) -> bool:
        """Whether all is as it was."""
        same = self._unchanged(self.rows, self.count) and self._guarded(self.groups)
        return bool(same) and all(ask() for ask in self.asked)
