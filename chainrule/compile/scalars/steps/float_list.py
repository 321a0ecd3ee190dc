"""The items of a list of floats as an array.

While the leaves are hollow, the list mostly is, too (`hollow_list.py`). Else its floats are always
there. Those that were written are kept in a second list. As long as both lists
hold the same objects the array is what they say: it need not be read again. A float that nobody
else refers to is changed in its place. So floats are made once, as neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.object_layout import holders, word
from chainrule.compile.scalars.slots import code
from chainrule.compile.scalars.steps.effects import Places, index
from chainrule.compile.scalars.steps.hollow import Leaves
from chainrule.compile.scalars.steps.hollow_list import HollowList, can_be_hollow, empty, fill
from chainrule.compile.scalars.steps.memory import LIST, Memory
from chainrule.engine.op import Array

MOST = 8
"""How often floats are made as neighbours: not if somebody keeps them at every step."""
_CHOICE = 4
"""Of how many times as many floats the closest are taken."""


@final
class FloatList:
    """A list of numbers, and an array of them."""

    def __init__(self, holder: list[Any], leaves: Leaves) -> None:
        self.holder = holder
        self._leaves = leaves
        self._memory = Memory(LIST, holder)
        self._layout = holders()
        self._code = None if self._layout is None else code()
        self._known: list[Any] = []
        """The objects whose numbers the array has."""
        self._packings = MOST
        """How often its floats may be made anew."""
        self.scattered = True
        self.items = 0
        """Where the memory of that list is."""
        self.numbers: Array = np.zeros(len(holder))
        self._address = self.numbers.ctypes.data

    def move(self, numbers: Array) -> None:
        """Let this be the array."""
        numbers[:] = self.numbers
        self.numbers, self._address = numbers, numbers.ctypes.data

    @property
    def hollow(self) -> bool:
        """Whether the numbers are in the array only."""
        return type(self.holder) is HollowList

    def empty(self, holders: Sequence[Any]) -> None:
        """Let the numbers be in the array only, if these are all `holders` of the list."""
        if self._code is None or self._layout is None or self.hollow:
            return
        self._known = []
        if can_be_hollow(self.holder, holders):
            empty(self.holder, self)

    def fill(self) -> None:
        """Let the list have its numbers again."""
        if self.hollow:
            fill(self.holder, self.numbers.tolist())

    def fill_all(self) -> None:
        """Fill all that was emptied with this list."""
        self._leaves.fill()
        self.fill()

    def __repr__(self) -> str:
        return "a number of a compiled step, which only the methods of its list give"

    def load(self) -> None:
        """Let the array have the numbers as they are now."""
        if not self.hollow and not self._is_known():
            self._memory.read(self.numbers)
            self._note()

    def store(self, numbers: Array, among: Places | None) -> None:
        """Let these be the numbers, at all places or `among` these."""
        if self.hollow:
            self.numbers[index(among)] = numbers
            return
        if among is not None or self._code is None:
            self._memory.write(numbers, among)
            self._known = []
            return
        self.numbers[:] = numbers
        n = len(self.numbers)
        if self.scattered and len(self.holder) == n:
            self._packings -= 1
            self.scattered = False
            self.holder[:] = _neighbours(n)
        if not self._is_known():
            self._note()
        self.note_made(self._code.put(id(self.holder), self.items, n, self._address))

    def note_made(self, count: int) -> None:
        """So many floats had to be made when the numbers of the array were written; -1: not all
        could be."""
        self.scattered = 2 * count > len(self.numbers) and self._packings > 0
        if count < 0:
            self._memory.write(self.numbers)
            self._known = []

    def put(self, thing: Any, among: Places | None) -> None:
        """Let this very object be there."""
        if self.hollow:
            self.fill_all()
        self._memory.fill(thing, among)
        self._known = []

    def _note(self) -> None:
        """Keep the objects that are in the list."""
        self._known = list(self.holder)
        if self._layout is not None:
            self.items = word(id(self._known) + self._layout.items)

    def _is_known(self) -> bool:
        x, y = self.holder, self._known
        if self._code is None or not y:
            return len(x) == len(y) and all(map(is_, x, y))
        return bool(self._code.same(id(x), self.items, len(y)))


def _neighbours(n: int) -> list[float]:
    """New floats that lie close together: of many those with the least memory between them."""
    many = sorted(np.zeros(_CHOICE * n).tolist(), key=id)
    places = np.array(list(map(id, many)), np.int64)
    best = int(np.argmin(places[n - 1 :] - places[: len(places) - n + 1]))
    return many[best : best + n]
