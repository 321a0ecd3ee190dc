"""What lives on from one step to the next, and the kernels that write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.export.loop_program import Memory
from chainrule.compile.export.scalars.copies import Places, filled, whole
from chainrule.compile.export.scalars.names import list_names, parts_of
from chainrule.compile.export.scalars.piece_inputs import Feed, fed, moved_results
from chainrule.compile.export.scalars.pieces import Piece, rolled_update
from chainrule.compile.export.scalars.straight_line import straight_line
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs
from chainrule.compile.loops.statements import Kernel, Store
from chainrule.compile.scalars.reroll.containers import named, stands
from chainrule.compile.scalars.reroll.program import Rolled
from chainrule.compile.scalars.reroll.units import Recorded
from chainrule.compile.scalars.steps.memory import DATA, GRADIENT, LIST
from chainrule.compile.scalars.steps.outcome import FLOAT as FLOATS
from chainrule.compile.scalars.steps.outcome import INT, RESULT, SLOPE
from chainrule.compile.scalars.steps.step import Step
from chainrule.errors import TraceError

F64, I64 = np.dtype(np.float64), np.dtype(np.int64)
Found = Sequence[tuple[Buffer, int]]


@final
@dataclass(frozen=True, slots=True)
class Given:
    """What an update finds beside the state and the graph: floats among the arguments, so many in
    each buffer; numbers that ints decide, and new counts."""

    floats: Sequence[tuple[int, Buffer]]
    scalars: Buffer
    counts: Buffer


@final
class StepMemory:
    """The state of a step: data, gradients and lists that it reads or writes, ints that it
    changes."""

    def __init__(self, step: Step, what: str) -> None:
        self.step, self._what = step, what
        state = step.state
        where = stands(named(state.roots))
        places = [where.get(id(v), (("", 1), (i,))) for i, v in enumerate(state.values)]
        data = [v.data for v in state.values]
        gradients = [float(v.grad) for v in state.values]
        self.data = _memory("values", "data of Values", data, parts_of(places, "", "parameter"))
        self._by_kind: dict[Any, Memory] = {
            (DATA,): self.data,
            (GRADIENT,): _memory(
                "grads", "their gradients", gradients, parts_of(places, ".grad", "its gradient")
            ),
        }
        for k, (x, name) in enumerate(
            zip(state.lists, list_names(state.roots, state.lists), strict=True)
        ):
            self._by_kind[LIST, k] = _memory(name, "a list of floats", list(x), ())
        self.counts = [
            Memory(
                Buffer(str(c.name), I64, (), "state"), str(c.name), "an int that each step changes",
                np.array(c.value, I64),
            )
            for c in state.counts
        ]  # fmt: skip
        written = [x.kind for x in (*step.effects.writes, *step.effects.fills)]
        kinds = {(DATA,), *[k for k in step.update.tape.kinds if k in self._by_kind], *written}
        self._kinds = [k for k in self._by_kind if k in kinds]

    @property
    def state(self) -> list[Memory]:
        """All of it."""
        return [*[self._by_kind[k] for k in self._kinds], *self.counts]

    def update(
        self, graph: Piece, loops: Rolled | None, given: Given, results: Sequence[Memory]
    ) -> list[Kernel]:
        """The kernels that compute and write what the step leaves, and what it returns; `loops`
        are those of the graph."""
        update, step = self.step.update, self.step
        piece = (
            rolled_update(update.tape, update.loops)
            if update.loops is not None
            else straight_line(
                update.tape, given.scalars, backward=False, what=self._what, why=update.why
            )
        )
        piece = fed(piece, self._feeds(graph, loops, given))
        kernels = list(piece.forward)
        for (kind, i), memory in zip(step.returned, results, strict=True):
            found = piece.results[i] if kind == "number" else graph.results[i]
            kernels += moved_results([found], memory.buffer, whole(1))
        return [*kernels, *self._writes(piece.results), *self._counted(given.counts)]

    def _feeds(self, graph: Piece, loops: Rolled | None, given: Given) -> list[Feed]:
        """Where the update's leaves are."""
        feeds: list[Feed] = []
        for kind, (start, places) in self.step.update.tape.kinds.items():
            to = start + whole(len(places))
            if kind in self._by_kind:
                feeds.append(Feed(to, self._by_kind[kind].buffer, places))
            elif kind == (SLOPE,):
                assert graph.dx is not None, "it goes backward"
                feeds.append(Feed(to, graph.dx, self._slopes(loops, places)))
            elif kind == (RESULT,):
                at = np.array([graph.results[i][1] for i in places], np.int64)
                feeds.append(Feed(to, graph.results[0][0], at))
            elif kind == (INT,):
                feeds.append(Feed(to, given.scalars, places))
            else:
                assert kind == (FLOATS,), f"an update reads {kind}"
                feeds += _floats(start, places, given.floats)
        return feeds

    def data_feed(self, loops: Rolled | None) -> Feed:
        """Where the graph reads the data."""
        tape, buffer = self.step.runs.tape, self.data.buffer
        room = 0 if loops is None else self.step.room_in_order(loops)
        if loops is not None and room:
            return Feed(loops.first + whole(room), buffer, whole(room))
        return Feed(spots_of(tape, loops)[tape.given :], buffer, self.step.places)

    def _slopes(self, loops: Rolled | None, places: Places) -> Places:
        """Where derivatives by these numbers of the state are, -1 where there are none."""
        step, tape = self.step, self.step.runs.tape
        room = 0 if loops is None else step.room_in_order(loops)
        if loops is not None and room:
            return np.where(places < room, loops.first + places, -1)
        spots = spots_of(tape, loops)
        at = np.full(len(step.state.values), -1, np.int64)
        at[step.places] = spots[tape.given :]
        return at[places]

    def _writes(self, found: Found) -> list[Kernel]:
        """What is written, at the end: results that are numbers of the state, which a write may
        change, are copied before."""
        own = {self._by_kind[k].buffer for k in self._kinds}
        before: list[Kernel] = []
        after: list[Kernel] = []
        for w in self.step.effects.writes:
            to = self._by_kind[w.kind].buffer
            places = whole(w.stop - w.start) if w.among is None else w.among
            results = list(found[w.start : w.stop])
            moving = [
                i
                for i, (b, at) in enumerate(results)
                if b in own and (b is not to or at != places[i])
            ]
            if moving:
                apart = Buffer(f"{to}_before", F64, (len(moving),), "scratch")
                before += moved_results([results[i] for i in moving], apart, whole(len(moving)))
                for n, i in enumerate(moving):
                    results[i] = apart, n
            after += moved_results(results, to, places)
        for fill in self.step.effects.fills:
            memory = self._by_kind[fill.kind]
            if type(fill.thing) not in (int, float):
                raise TraceError(
                    f"{self._what}: the step leaves {fill.thing!r} in {memory.path}, which is no "
                    "number"
                )
            places = whole(len(memory.value)) if fill.among is None else fill.among
            after.append(filled(memory.buffer, places, float(fill.thing)))
        return [*before, *after]

    def _counted(self, found: Buffer) -> list[Kernel]:
        make = Exprs()
        return [
            Kernel(f"count_{c.path}", (Store(c.buffer, Affine(), make.load(found, Affine(i))),))
            for i, c in enumerate(self.counts)
        ]


def spots_of(tape: Recorded, loops: Rolled | None) -> Places:
    """Where the leaves of a tape lie among those of its program."""
    return whole(tape.leaves) if loops is None else np.asarray(loops.spots, np.int64)


def _floats(start: int, places: Places, floats: Sequence[tuple[int, Buffer]]) -> list[Feed]:
    """Floats among the arguments, of which these are read."""
    feeds: list[Feed] = []
    done = 0
    for n, b in floats:
        here = (places >= done) & (places < done + n)
        to = start + np.flatnonzero(here).astype(np.int64)
        feeds.append(Feed(to, b, places[here] - done))
        done += n
    return feeds


def _memory(path: str, about: str, numbers: Sequence[float], parts: Any) -> Memory:
    values = np.array(numbers, np.float64)
    return Memory(Buffer(path, F64, values.shape, "state"), path, about, values, parts)
