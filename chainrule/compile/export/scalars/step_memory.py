"""What lives on from one step to the next, and the kernels that write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.export.loop_program import Memory
from chainrule.compile.export.scalars.arguments import FLOAT
from chainrule.compile.export.scalars.copies import Places, filled, whole
from chainrule.compile.export.scalars.inputs import Inputs, Ints
from chainrule.compile.export.scalars.meeting import Feed, fed, moved_results
from chainrule.compile.export.scalars.names import list_names, parts_of
from chainrule.compile.export.scalars.pieces import Piece, rolled_update
from chainrule.compile.export.scalars.straight_line import straight_line
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs
from chainrule.compile.loops.statements import Kernel, Store
from chainrule.compile.scalars.reroll.containers import stands
from chainrule.compile.scalars.steps.memory import DATA, GRADIENT, LIST
from chainrule.compile.scalars.steps.outcome import FLOAT as FLOATS
from chainrule.compile.scalars.steps.outcome import INT, RESULT, SLOPE
from chainrule.compile.scalars.steps.step import Step
from chainrule.errors import TraceError

F64, I64 = np.dtype(np.float64), np.dtype(np.int64)
Found = Sequence[tuple[Buffer, int]]


@final
class StepMemory:
    """The state of a step of `f`: data, gradients and lists that it reads or writes, ints that it
    changes."""

    def __init__(self, f: Callable[..., Any], step: Step, what: str) -> None:
        self.step, self._what = step, what
        state = step.state
        where = stands({"function": f})
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
        for k, (x, name) in enumerate(zip(state.lists, list_names(f, state.lists), strict=True)):
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
        self, graph: Piece, inputs: Inputs, ints: Ints, results: Sequence[Memory]
    ) -> list[Kernel]:
        """The kernels that compute and write what the step leaves, and what it returns."""
        update, step = self.step.update, self.step
        piece = (
            rolled_update(update.tape, update.loops)
            if update.loops is not None
            else straight_line(
                update.tape, ints.indices, backward=False, what=self._what, why=update.why
            )
        )
        piece = fed(piece, self._feeds(graph, inputs, ints))
        kernels = list(piece.forward)
        for (kind, i), memory in zip(step.returned, results, strict=True):
            found = piece.results[i] if kind == "number" else graph.results[i]
            kernels += moved_results([found], memory.buffer, whole(1))
        return [*kernels, *self._writes(piece.results), *self._counted(ints)]

    def _feeds(self, graph: Piece, inputs: Inputs, ints: Ints) -> list[Feed]:
        """Where the update's leaves are."""
        feeds: list[Feed] = []
        for kind, (start, places) in self.step.update.tape.kinds.items():
            to = start + whole(len(places))
            if kind in self._by_kind:
                feeds.append(Feed(to, self._by_kind[kind].buffer, places))
            elif kind == (SLOPE,):
                assert graph.dx is not None, "it goes backward"
                feeds.append(Feed(to, graph.dx, self._slopes(places)))
            elif kind == (RESULT,):
                at = np.array([graph.results[i][1] for i in places], np.int64)
                feeds.append(Feed(to, graph.results[0][0], at))
            elif kind == (INT,):
                feeds.append(Feed(to, ints.scalars, places))
            else:
                assert kind == (FLOATS,), f"an update reads {kind}"
                feeds += _floats(start, places, inputs)
        return feeds

    def _slopes(self, places: Places) -> Places:
        """Where derivatives by these numbers of the state are, -1 where there are none."""
        runs, step = self.step.runs, self.step
        room = 0 if runs.loops is None else step.room_in_order(runs.loops)
        if runs.loops is not None and room:
            return np.where(places < room, runs.loops.first + places, -1)
        tape = runs.tape
        spots = whole(tape.leaves) if runs.loops is None else np.asarray(runs.loops.spots, np.int64)
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

    def _counted(self, ints: Ints) -> list[Kernel]:
        make = Exprs()
        return [
            Kernel(
                f"count_{c.path}", (Store(c.buffer, Affine(), make.load(ints.counts, Affine(i))),)
            )
            for i, c in enumerate(self.counts)
        ]


def _floats(start: int, places: Places, inputs: Inputs) -> list[Feed]:
    """Floats among the arguments, of which these are read."""
    feeds: list[Feed] = []
    done = 0
    for a, b in inputs.numbers(FLOAT):
        here = (places >= done) & (places < done + len(a.leaves))
        to = start + np.flatnonzero(here).astype(np.int64)
        feeds.append(Feed(to, b, places[here] - done))
        done += len(a.leaves)
    return feeds


def _memory(path: str, about: str, numbers: Sequence[float], parts: Any) -> Memory:
    values = np.array(numbers, np.float64)
    return Memory(Buffer(path, F64, values.shape, "state"), path, about, values, parts)
