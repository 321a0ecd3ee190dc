"""Guards: all places that a traced function read, asked at once.

Most are asked by machine code (see `cpu/dict_guards.py`). Of a dictionary its version is compared,
and the objects under its keys if that differs. Of a list or a cell the words in its memory are
compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.object_layout import holders
from chainrule.compile.trace.guards.places import ABSENT, Closure, Items, Names, Reading, Source


@final
class Guards:
    """What must be as it was for a trace to be used again.

    `arrays` are tensors that stand for the user's arrays, and share their memory.
    """

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.arrays: list[Any] = []
        self.alive = np.ones((), np.int64)
        """0 once an object that was read is gone: then nothing can be as it was."""

    def invalidate(self, _: Any = None) -> None:
        """Note that an object that was read is gone, and let go of the others."""
        self.alive[()] = 0
        self.sources = []
        self.arrays = []

    def changed(self) -> tuple[Reading, Any, Any] | None:
        """The first reading that would find another value, the old and the new value; None if all
        is as it was. Equal values are taken over."""
        if not self.alive:
            return Reading("an object that it used", "?"), "an object", "gone"
        for place in self.sources:
            if (found := place.changed()) is not None:
                return found
        return None

    def stays(self) -> bool:
        """Whether the very objects are where `changed` saw them last."""
        return bool(self.alive) and all(p.stays() for p in self.sources)

    def asked(self) -> list[Source]:
        """The places that machine code cannot look at."""
        known = holders() is not None
        return [p for p in self.sources if not (known and _is_seen(p))]

    def rows(self) -> list[int]:
        """Addresses, each with the word that is there while lists and cells are as they are."""
        layout = holders()
        rows = [self.alive.ctypes.data, 1]
        if layout is None:
            return rows
        for p in self.sources:
            if isinstance(p, Items):
                start = id(p.holder)
                rows += [start + layout.length, p.length]
                if p.entries:
                    items = layout.word(start + layout.items)
                    rows += [start + layout.items, items]
                    for i, e in sorted(p.entries.items()):
                        rows += [items + 8 * i, id(e.value())]
            elif isinstance(p, Closure):
                found = p.expected.value()
                rows += [id(p.holder) + layout.cell, 0 if found is ABSENT else id(found)]
        return rows

    def groups(self) -> Any:
        """Words about dictionaries, as `cpu/dict_guards.py` reads them."""
        layout = holders()
        seen: Sequence[Names] = [
            p for p in self.sources if layout is not None and isinstance(p, Names) and _is_seen(p)
        ]
        words = [len(seen), 0 if layout is None else layout.version]
        for p in seen:
            version = layout.word(id(p.holder) + layout.version) if layout is not None else 0
            words += [id(p.holder), version, int(p.key_order is not None), len(p.entries)]
            for key, e in p.entries.items():
                found = e.value()
                words += [id(key), 0 if found is ABSENT else id(found)]
        return np.array(words, np.int64)


def _is_seen(p: Source) -> bool:
    """Whether machine code can look at a place: no key of a dictionary may run code of its own."""
    if isinstance(p, Names):
        layout = holders()
        if p.key_order is not None and (layout is None or not layout.version):
            return False
        return type(p.holder) is dict and all(type(key) is str for key in p.entries)
    return isinstance(p, Items | Closure)
