"""Calls of a loop that are like the one before: noted one by one, then run as one native call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.graph.rules.index_checks import refuse
from chainrule.compile.runtime.call.gate import Gate
from chainrule.compile.runtime.call.settings import Settings
from chainrule.compile.runtime.call.wanted_arguments import Wanted
from chainrule.compile.runtime.loaded_program import Loaded
from chainrule.compile.runtime.many_runs import ARGUMENT, SETTING, ManyArguments, ManyRuns, Parts
from chainrule.compile.trace.guards.guards import Guards
from chainrule.engine.graph import is_recording


@final
class NotedCalls:
    """Calls of a program that are to run as one."""

    def __init__(
        self,
        native: Loaded,
        wanted: Wanted,
        settings: Settings,
        gate: Gate | None,
        read: Guards,
        places: Sequence[tuple[int, int]],
        known: dict[tuple[int, ...], bool],
    ) -> None:
        """`places` are the arguments and axes whose sizes the program is given; it holds at those
        that are `known`."""
        self._native, self._wanted, self._settings, self._read = native, wanted, settings, read
        self._places, self._known = places, known
        words = None if gate is None else gate.words
        self._calls = ManyArguments(len(wanted.places), settings.numbers, words)
        # what `collect` says, and the sizes that it means, by their number among all that there are
        self._numbers: dict[int, int] = {}
        self._every: list[tuple[int, ...]] = []
        self._stackable = all(n.__class__ is int for r in native.layout.results for n in r.shape)

    def __len__(self) -> int:
        return len(self._calls)

    def clear(self) -> None:
        """Begin anew; sizes stay known where results are alike for all of them."""
        self._calls.clear()
        if not self._stackable:
            self._numbers.clear()
            self._every.clear()
            self._calls.forget()

    def note(
        self,
        batches: Iterator[Sequence[Any]],
        recording: bool,
        asked: Sequence[Callable[[], bool]],
    ) -> Any:
        """Note calls up to the first that is not like the one before, which is returned. It is, if
        one of those that are `asked` says no, or ops are recorded otherwise than then."""
        calls = self._calls
        if calls.collect_all is not None and not asked:
            return self._note_all(batches, recording, calls.collect_all)
        # Each line of this loop is a noticeable part of a small program's time.
        collect, numbers = self._calls.collect, self._numbers
        for batch in batches:
            key = collect(batch) if is_recording() is recording else -1
            if key not in numbers and not self._note(batch, key, recording):
                return batch
            for ask in asked:
                if not ask():
                    self._calls.drop()
                    return batch
        return None

    def _note_all(
        self, batches: Iterator[Sequence[Any]], recording: bool, collect: Callable[[Any], Any]
    ) -> Any:
        """The same in machine code, but for calls of sizes that are new."""
        calls = self._calls
        calls.begin(recording)
        while True:
            batch = collect(batches)
            if calls.has_ended:
                return None
            if not self._note(batch, calls.key, recording):
                return batch

    def _note(self, batch: Sequence[Any], key: int, recording: bool) -> bool:
        """Note a call, whose `key` is what `collect` said, if it is like the one before."""
        number = self._sizes_of(batch, key) if is_recording() is recording else None
        if key >= 0:  # it is noted
            if number is None:
                self._calls.drop()
            return number is not None
        settings = self._settings
        found = settings.read()
        if number is None or any(bool(found[i]) is not truth for i, truth in settings.truths):
            return False
        self._calls.add([*self._wanted.take(batch)], found, number)
        return True

    def _sizes_of(self, batch: Sequence[Any], key: int) -> int | None:
        """The number of the sizes that a batch's dynamic axes have; None if it is not like the one
        before."""
        given = self._wanted.arrays(batch)
        if given is None or not (key >= 0 or self._read.stays()):
            return None
        sizes = tuple([given[i].shape[a] for i, a in self._places])
        if sizes not in self._known:
            return None
        if self._every and self._shapes(self._every[0]) != self._shapes(sizes):
            return None  # results are stacked, so they must be alike
        if sizes not in self._every:
            self._every.append(sizes)
        number = self._every.index(sizes)
        if key >= 0 and key not in self._numbers:
            self._numbers[key] = number
            self._calls.know(key, number)
        return number

    def _shapes(self, sizes: tuple[int, ...]) -> Any:
        return self._native.block(sizes).shapes

    def run(self, state: Sequence[Any]) -> list[Any]:
        """Run them on arrays of state; the arrays of their results, stacked."""
        native, settings = self._native, self._settings
        settings.check()
        blocks = [native.block(s) for s in self._every]
        outs = [
            np.empty((len(self), *shape), dtype) for shape, dtype in self._shapes(self._every[0])
        ]
        objects = [ARGUMENT] * len(self._wanted.places) + [*state]
        objects += [SETTING] * len(settings.numbers) + [*map(Parts, outs)]
        run = ManyRuns(native, objects, blocks)
        for rows in self._calls.rows(self._numbers):
            run(rows)
        if native.checks:
            flags = int(np.bitwise_or.reduce(outs.pop()))
            if flags:
                refuse(flags, native.checks)
        return outs
