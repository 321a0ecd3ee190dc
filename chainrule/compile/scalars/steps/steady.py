"""A step whose numbers lie in arrays, as commands that machine code runs (`commands.py`).

They are written down once everything has its place: loops are compiled, the leaves are hollow, the
update's loops read the state's arrays. From then on a call is one call of machine code.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.scalars.gathers import Chosen
from chainrule.compile.scalars.reroll.program import Code, Rolled, Straight
from chainrule.compile.scalars.steps.commands import (
    CHOOSE,
    COPY,
    COUNT,
    PUT,
    RUN,
    SAME,
    WATCH,
    WORDS,
    player,
)
from chainrule.compile.scalars.steps.effects import NO_PLACES, Effects, Write
from chainrule.compile.scalars.steps.float_list import FloatList
from chainrule.compile.scalars.steps.memory import DATA, LIST
from chainrule.compile.scalars.steps.outcome import FLOAT, INT, RESULT, SLOPE
from chainrule.compile.scalars.steps.storage import Storage
from chainrule.compile.scalars.steps.update import UpdateTape
from chainrule.compile.trace.guards.watcher import Watcher
from chainrule.engine.op import Array


class _UnsteadyError(Exception):
    """Something that commands cannot say."""


@final
class Steady:
    """The commands of a step with these `effects`, of which the first asks `stays`. Its loops read
    `floats`, then so many numbers of the state, the first; the last of what is `chosen` are so many
    ints. These three are `sizes`."""

    def __init__(
        self,
        storage: Storage,
        effects: Effects,
        loops: Rolled,
        update: tuple[UpdateTape, Straight],
        sizes: tuple[int, int, int],
        chosen: Chosen,
        stays: Watcher,
    ) -> None:
        self._floats, self._room, self._scalars = sizes
        self._stays = stays
        self._storage, self._effects, self._version = storage, effects, storage.version
        self._loops, self._update = loops, update[1]
        self._chosen = chosen.copy()
        self._rows: list[int] = []
        self._kept: list[Any] = []
        self._given: list[tuple[Array, Any]] = []
        self._add(WATCH, stays.rows, stays.count, stays.groups)
        self._hollow: list[FloatList] = []
        self._written = self._lists(update[0])
        self._made = np.zeros(len(self._written), np.int64)
        self._share(update[0])
        self._graph()
        self._update_inputs(update[0])
        self._run(update[1].code, update[1].addresses)
        self._writes()
        self._count = len(self._rows) // WORDS
        self._words = np.array(self._rows, np.int64)
        self._address = self._words.ctypes.data
        self._play = player()
        self._slopes = loops.slopes[loops.first :]
        self._to: Any = self._chosen
        self._pack = struct.Struct(f"={len(chosen)}q").pack_into

    def _add(self, *words: int) -> None:
        self._rows += [*words, *[0] * (WORDS - len(words))]

    def _copy(self, to: Array, source: Array) -> None:
        if _is_same(to, source):
            return
        for x in (to, source):
            if not x.flags.c_contiguous or len(x) != len(to) or x.dtype != np.float64:
                raise _UnsteadyError
        self._add(COPY, to.ctypes.data, source.ctypes.data, to.nbytes)
        self._kept += [to, source]

    def _run(self, code: Code, addresses: Any) -> None:
        self._add(RUN, code.entry, ctypes.addressof(addresses), *code.memory)

    def _lists(self, tape: UpdateTape) -> list[FloatList]:
        """Ask whether the lists that are read or written are as they were; those that are
        written."""
        written = [w.kind for w in self._effects.writes if w.kind[0] == LIST]
        if any(f.kind[0] == LIST for f in self._effects.fills):
            raise _UnsteadyError
        for kind in self._storage.kinds():
            if kind[0] == LIST and (kind in tape.kinds or kind in written):
                x = self._storage.list_of(kind)
                if x.hollow:
                    self._hollow.append(x)
                    continue
                self._add(SAME, id(x.holder), x.items, len(x.numbers))
        found = [self._storage.list_of(kind) for kind in written]
        return [x for x in found if not x.hollow]

    def _share(self, tape: UpdateTape) -> None:
        """Let the program of the graph read the state's array, and write where the update reads, if
        these have the same sizes."""
        loops, n = self._loops, self._room
        if self._floats:
            return
        data = self._storage.numbers((DATA,))[:n]
        start, places = tape.kinds.get((SLOPE,), (0, NO_PLACES))
        slopes = self._update.leaves[start : start + len(places)]
        fits = len(slopes) == len(loops.slopes) and np.array_equal(places, np.arange(n))
        loops.share(data, slopes if fits else loops.slopes)

    def _graph(self) -> None:
        """The numbers of the leaves, what ints choose, and the program of the graph."""
        loops, first = self._loops, self._loops.first
        self._copy(loops.numbers[first:], self._storage.numbers((DATA,))[: self._room])
        loops.seeds[0] = 1.0
        for table, at, choice in loops.choices:
            words = [choice.flat, choice.starts, choice.index, self._chosen]
            arrays = [table, np.ascontiguousarray(at), *map(np.ascontiguousarray, words)]
            if any(a.dtype != np.int64 for a in arrays):
                raise _UnsteadyError
            self._kept += arrays
            self._add(CHOOSE, *[a.ctypes.data for a in arrays], len(at))
        self._run(loops.code, loops.addresses)

    def _update_inputs(self, tape: UpdateTape) -> None:
        """What the update reads beside the state, whose arrays it reads where they are."""
        x, loops = self._update.leaves, self._loops
        for kind, (start, places) in tape.kinds.items():
            to = x[start : start + len(places)]
            in_order = np.array_equal(places, np.arange(len(places)))
            if kind == (SLOPE,):
                if not in_order or len(places) > self._room:
                    raise _UnsteadyError
                self._copy(to, loops.slopes[loops.first :][: len(places)])
            elif kind == (RESULT,):
                self._copy(to, loops.out[:1])
            elif kind == (INT,):
                index = places + (len(self._chosen) - self._scalars)
                self._kept.append(index)
                addresses = [a.ctypes.data for a in (to, self._chosen, index)]
                self._add(COUNT, *addresses, len(places))
            elif kind == (FLOAT,):
                self._given.append((to, places))
            elif self._storage.numbers(kind).base is not x or not in_order:
                raise _UnsteadyError

    def _writes(self) -> None:
        """Where the outputs go."""
        for w in sorted(self._effects.writes, key=lambda w: w.kind[0] == LIST):
            self._copy(self._target(w), self._source(w))
            x = self._storage.list_of(w.kind) if w.kind[0] == LIST else None
            if x is not None and not x.hollow:
                made = self._made[self._written.index(x) :]
                words = id(x.holder), x.items, len(x.numbers), x.numbers.ctypes.data
                self._add(PUT, *words, made.ctypes.data)

    def _target(self, w: Write) -> Array:
        numbers = self._storage.numbers(w.kind)
        if w.among is None:
            return numbers
        first, n = int(w.among[0]), len(w.among)
        if w.kind[0] == LIST or not np.array_equal(w.among, np.arange(first, first + n)):
            raise _UnsteadyError
        return numbers[first : first + n]

    def _source(self, w: Write) -> Array:
        found = self._update.results(w.start, w.stop)
        if found.base is None:  # it was collected
            raise _UnsteadyError
        return found

    @property
    def slopes(self) -> Array:
        """The derivatives of the latest run, which the next one writes over."""
        return self._slopes

    def run(self, floats: Sequence[float], found: Sequence[int], watched: bool) -> float | None:
        """The result, if everything is in its place, and if what is `watched` is as it was: then
        the step is done. `found` are the ints that are chosen."""
        leaves, loops = self._storage.leaves, self._loops
        if not leaves.follows(self._effects) or self._storage.version != self._version:
            return None
        if watched and self._stays.asked and not self._stays():
            return None
        for x in self._hollow:
            if not x.hollow:
                return None
        skipped = 0 if watched else 1
        if floats:
            loops.numbers[: self._floats] = floats
            for to, places in self._given:
                to[:] = np.take(floats, places)
        try:
            self._pack(self._to, 0, *found)
        except struct.error:  # an int that is larger than all indices
            return None
        with loops.code.lock, self._update.code.lock:
            count = self._count - skipped
            if self._play(self._address + 8 * WORDS * skipped, count) < count:
                return None
            result = float(loops.out[0])
        leaves.count_step()
        if self._written and self._made.any():
            for x, made in zip(self._written, self._made.tolist(), strict=True):
                x.note_made(made)
            self._storage.version += any(x.scattered for x in self._written)
        return result


def _is_same(a: Array, b: Array) -> bool:
    """Whether they are the same memory."""
    return a.ctypes.data == b.ctypes.data and a.strides == b.strides and len(a) == len(b)


def steady(*of: Any) -> Steady | None:
    """The commands of a step, if it can be said by them."""
    if player() is None:
        return None
    try:
        return Steady(*of)
    except _UnsteadyError:
        return None
