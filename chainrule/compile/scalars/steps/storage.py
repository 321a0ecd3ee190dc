"""The arrays of what a step trains, which all the tapes of a function share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

from chainrule.compile.scalars.steps.effects import Effects, Outputs
from chainrule.compile.scalars.steps.float_list import FloatList
from chainrule.compile.scalars.steps.hollow import Leaves
from chainrule.compile.scalars.steps.hollow_list import holders_of
from chainrule.compile.scalars.steps.memory import LIST
from chainrule.compile.scalars.steps.state import State
from chainrule.engine.op import Array

SEARCHES = 2
"""How often it is searched what refers to the lists of a state, unless steps are recorded."""
_MOST = 4
"""Storages of a function that are remembered: there is mostly one."""


@final
class Storage:
    """The numbers of leaves and of lists, by kind."""

    def __init__(self, state: State) -> None:
        self.leaves = Leaves(state.values)
        self.lists: list[FloatList] = [FloatList(x, self.leaves) for x in state.lists]
        self.leaves.lists = self.lists
        self._effects_by_key: dict[Any, Effects] = {}
        self._holders: list[Any] = []
        """What refers to the lists, as it was when that was last searched."""
        self._searches, self._searched = SEARCHES, State.made
        self.version = 0
        """Another one after each change of where the numbers are."""

    def list_of(self, kind: Any) -> FloatList:
        """The list of a kind."""
        return self.lists[int(kind[1])]

    def holds(self, state: State) -> bool:
        """Whether it is for these Values and lists, in that order."""
        lists = [x.holder for x in self.lists]
        return _same(self.leaves.values, state.values) and _same(lists, state.lists)

    def effects(self, effects: Effects) -> Effects:
        """An equal one that it knows, or this."""
        return self._effects_by_key.setdefault(effects.key, effects)

    def count(self, kind: Any) -> int:
        """How many numbers of a kind there are."""
        return len(self.numbers(kind))

    def kinds(self) -> list[Any]:
        """All kinds."""
        return [*self.leaves.numbers, *[(LIST, k) for k in range(len(self.lists))]]

    def numbers(self, kind: Any) -> Array:
        """The array of a kind."""
        return self.list_of(kind).numbers if kind[0] == LIST else self.leaves.numbers[kind]

    def move(self, kind: Any, numbers: Array) -> None:
        """Let this be the array of a kind."""
        self.version += 1
        if kind[0] == LIST:
            self.list_of(kind).move(numbers)
        else:
            self.leaves.move(kind, numbers)

    def load(self, kinds: Iterable[Any]) -> Mapping[Any, Array]:
        """The arrays of these kinds, with the numbers as they are now."""
        self.leaves.load(kinds)
        for kind in kinds:
            if kind[0] == LIST:
                self.list_of(kind).load()
        return {kind: self.numbers(kind) for kind in kinds}

    def store(self, effects: Effects, found: Outputs) -> None:
        """Write what a step with these effects writes: outputs of its update."""
        self.leaves.store(effects, found)
        for w in effects.writes:
            if w.kind[0] == LIST:
                self.list_of(w.kind).store(found(w.start, w.stop), w.among)
        for f in effects.fills:
            if f.kind[0] == LIST:
                self.list_of(f.kind).put(f.thing, f.among)
        self.leaves.rest()
        if self.leaves.hollow and not self.leaves.steps:  # they have just been emptied
            whole = [w.kind for w in effects.writes if w.kind[0] == LIST and w.among is None]
            self._empty(list(map(self.list_of, whole)))

    def _empty(self, lists: Sequence[FloatList]) -> None:
        """Make lists hollow, too, if they can be."""
        for x in lists:
            x.empty(self._holders)
        if self._searched != State.made:
            self._searched, self._searches = State.made, SEARCHES
        if self._searches and not all(x.hollow for x in lists):
            self._searches -= 1
            self._holders = holders_of([x.holder for x in lists])
            for x in lists:
                x.empty(self._holders)


@final
class Storages:
    """Those of a function's states so far."""

    def __init__(self) -> None:
        self._made: list[Storage] = []

    def of(self, state: State) -> Storage:
        """The one for a state."""
        for known in self._made:
            if known.holds(state):
                return known
        made = Storage(state)
        self._made = [made, *self._made[: _MOST - 1]]
        return made


def _same(xs: Any, ys: Any) -> bool:
    return len(xs) == len(ys) and all(x is y for x, y in zip(xs, ys, strict=True))
