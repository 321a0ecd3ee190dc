"""Calls of a loop that are like the one before: noted one by one, then run as one native call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.graph.rules.index_checks import refuse
from chainrule.compile.runtime.call.gate import Gate
from chainrule.compile.runtime.call.settings import Settings
from chainrule.compile.runtime.call.wanted_arguments import Wanted
from chainrule.compile.runtime.loaded_program import Loaded
from chainrule.compile.runtime.many_runs import ARGUMENT, SETTING, ManyArguments, ManyRuns, Parts


@final
class NotedCalls:
    """Calls of a program that are to run as one."""

    def __init__(
        self,
        native: Loaded,
        wanted: Wanted,
        settings: Settings,
        gate: Gate,
        places: Sequence[tuple[int, int]],
        known: dict[tuple[int, ...], bool],
    ) -> None:
        """`places` are the arguments and axes whose sizes the program is given; it holds at those
        that are `known`."""
        self._native, self._wanted, self._settings = native, wanted, settings
        self._places, self._known = places, known
        self._calls = ManyArguments(len(wanted.places), settings.numbers, gate.words)
        # what `collect_all` says, and the number of the sizes that it means, in `_every`
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

    def note(self, batches: Iterator[Sequence[Any]], recording: bool) -> Any:
        """Note calls up to the first that is not like the one before, which is returned. It is not
        if ops are recorded otherwise than then."""
        calls, source = self._calls, batches
        calls.begin(recording)
        while True:
            batch = calls.collect_all(source)
            if calls.has_ended:
                if source is batches:
                    return None
                calls.begin(recording)
            elif calls.key < 0 and calls.is_full:
                calls.add_rows()
                source = iter([batch])
                continue
            elif calls.key < 0 or not self._know_sizes(batch, calls.key):
                return batch
            source = batches

    def _know_sizes(self, batch: Sequence[Any], key: int) -> bool:
        """Whether the program holds for the sizes of a call that was noted, and its results are
        like those of the others. From here on `key` stands for them."""
        given = self._wanted.arrays(batch)
        sizes = () if given is None else tuple([given[i].shape[a] for i, a in self._places])
        if (
            given is None
            or sizes not in self._known
            or (self._every and self._shapes(self._every[0]) != self._shapes(sizes))
        ):
            self._calls.drop()
            return False
        if sizes not in self._every:
            self._every.append(sizes)
        self._numbers[key] = self._every.index(sizes)
        self._calls.know(key, self._numbers[key])
        return True

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
