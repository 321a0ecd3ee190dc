"""Guards: all places that a traced function read, asked at once.

Most are asked by machine code (see `cpu/dict_guards.py`). Of a dictionary its version is compared,
and the objects under its keys if that differs. Of a list or a cell the words in its memory are
compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.call_plan import DICTIONARY
from chainrule.compile.cpu.object_layout import holders, place_of_key
from chainrule.compile.trace.guards.places import (
    ABSENT,
    Closure,
    Defaults,
    Items,
    Names,
    Reading,
    Source,
)

Look = Callable[[Any], int]
"""Given `()`, a number below 0 if a place is not as it was."""


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
        self._sorted: tuple[list[Names], list[Source], list[Source]] | None = None
        self._watched: tuple[Look, Any, list[int], Any] | None = None

    def invalidate(self, _: Any = None) -> None:
        """Note that an object that was read is gone, and let go of the others."""
        self.alive[()] = 0
        self.sources = []
        self.arrays = []
        self._sorted = self._watched = None

    def changed(self) -> tuple[Reading, Any, Any] | None:
        """The first reading that would find another value, the old and the new value; None if all
        is as it was. Equal values are taken over."""
        if not self.alive:
            return Reading("an object that it used", "?"), "an object", "gone"
        if self._watched is not None:
            if self.stays():
                return None
            self._watched = None  # what is taken over is in other places
        for place in self.sources:
            if (found := place.changed()) is not None:
                return found
        return None

    def stays(self) -> bool:
        """Whether the very objects are where `changed` saw them last."""
        if self._watched is not None and self._watched[0](()) >= 0:
            return all(p.stays() for p in self.asked())
        return bool(self.alive) and all(p.stays() for p in self.sources)

    def watch(self, look: Callable[[list[int], Any], tuple[Look, Any]]) -> tuple[list[int], Any]:
        """The `rows` and `groups` by which machine code looks at the places that it can. From now
        on what `look` makes of them is asked first: a function, and what is to live with it."""
        if self._watched is None:
            rows, words = self.rows(), self.groups()
            if not self.stays():  # the versions in `words` are those of other values
                return rows, words
            self._watched = (*look(rows, words), rows, words)
        return self._watched[2:]

    def asked(self) -> list[Source]:
        """The places that machine code cannot look at."""
        return self._by_sight()[2]

    def _by_sight(self) -> tuple[list[Names], list[Source], list[Source]]:
        """Dictionaries and other places that machine code can look at, and those that it cannot;
        told apart once, when the trace is over."""
        if self._sorted is None:
            known = holders() is not None
            seen = [p for p in self.sources if known and _is_seen(p)]
            self._sorted = (
                [p for p in seen if isinstance(p, Names)],
                [p for p in seen if not isinstance(p, Names)],
                [p for p in self.sources if p not in seen],
            )
        return self._sorted

    def rows(self) -> list[int]:
        """Addresses, each with the word that is there while lists and cells are as they are."""
        layout = holders()
        rows = [self.alive.ctypes.data, 1]
        if layout is None:
            return rows
        for p in self._by_sight()[1]:
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
            elif isinstance(p, Defaults) and layout.defaults is not None:
                for at, found in zip(layout.defaults, p.values, strict=True):
                    rows += [id(p.holder) + at, 0 if found is None else id(found)]
        return rows

    def groups(self) -> Any:
        """Words about dictionaries, as `cpu/dict_guards.py` reads them."""
        layout = holders()
        seen = self._by_sight()[0]
        words = [len(seen), 0 if layout is None else layout.version]
        entries: list[int] = []
        first = len(words) + len(seen) * len(DICTIONARY)
        for p in seen:
            version = layout.word(id(p.holder) + layout.version) if layout is not None else 0
            whole = int(p.key_order is not None)
            words += [id(p.holder), version, whole, first + len(entries), len(p.entries)]
            for key, e in p.entries.items():
                found = e.value()
                entries += [id(key), 0 if found is ABSENT else id(found)]
                entries += place_of_key(p.holder, key)
        return np.array([*words, *entries], np.int64)


def _is_seen(p: Source) -> bool:
    """Whether machine code can look at a place: no key of a dictionary may run code of its own."""
    if isinstance(p, Names):
        layout = holders()
        if p.key_order is not None and (layout is None or not layout.version):
            return False
        return type(p.holder) is dict and all(type(key) is str for key in p.entries)
    if isinstance(p, Defaults):
        return (layout := holders()) is not None and layout.defaults is not None
    return isinstance(p, Items | Closure)
