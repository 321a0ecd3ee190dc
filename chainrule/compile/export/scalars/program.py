"""A recorded function of `Value`s as a program to be written down: ints, graph, update, results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.export.call_data import name_results
from chainrule.compile.export.loop_program import LoopProgram, Memory
from chainrule.compile.export.scalars.arguments import FLOAT, VALUE
from chainrule.compile.export.scalars.copies import Places, whole
from chainrule.compile.export.scalars.inputs import Arguments, Inputs, Ints, decided_ints
from chainrule.compile.export.scalars.names import parts_of
from chainrule.compile.export.scalars.piece_inputs import Feed, fed, moved_results
from chainrule.compile.export.scalars.pieces import Piece, rolled_graph
from chainrule.compile.export.scalars.segments import Phases, needed, with_unique_names
from chainrule.compile.export.scalars.step_memory import Given, StepMemory, spots_of
from chainrule.compile.export.scalars.straight_line import straight_line
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.statements import Kernel
from chainrule.compile.scalars.gathers import Chosen
from chainrule.compile.scalars.record import is_number
from chainrule.compile.scalars.variants import Variant
from chainrule.engine.op import Array

F64 = np.dtype(np.float64)


@final
class ScalarProgram:
    """What a call runs that is given so, `chosen` by its ints, of a function `f` that was recorded
    as `variant`; `what` is the method that asks."""

    def __init__(
        self, f: Callable[..., Any], variant: Variant, given: Arguments, chosen: Chosen, what: str
    ) -> None:
        self._f, self._variant, self._given, self._what = f, variant, given, what
        numbers = [getattr(x, "data", x) for x in given.leaves if is_number(x)]
        if variant.step is None:
            variant.runs.settle(numbers, chosen)
        else:
            variant.step.settle(numbers, chosen)
        self._inputs = Inputs(variant, given, what)

    def written(self, calls: Sequence[Sequence[Any]]) -> LoopProgram:
        """The program, with the arrays of these calls, of which there are the arguments' leaves."""
        step = self._variant.step
        memory = None if step is None else StepMemory(step, self._what)
        counts = [] if memory is None else memory.counts
        ints = decided_ints(self._variant, self._inputs, counts, self._what)
        if memory is None:
            phases, state, results = self._function(ints)
        else:
            phases, state, results = self._step(memory, ints)
        if ints.kernels:
            phases.insert(0, ("prepare", list(ints.kernels)))
        fixed = self._inputs.fixed()
        inputs = self._inputs.memory()
        known = [m.buffer for m in (*inputs, *state, *results)]
        known += [] if ints.outside is None else [ints.outside]
        return LoopProgram(
            getattr(self._f, "__name__", "step"),
            with_unique_names([p for p in phases if p[1]], known),
            inputs,
            state,
            results,
            ints.outside,
            ints.checks,
            [f"It is for {', '.join(fixed)}."] if fixed else [],
            [self._inputs.arrays(leaves) for leaves in calls],
        )

    def _graph(self, ints: Ints, *, backward: bool) -> Piece:
        runs = self._variant.runs
        if runs.loops is not None:
            return rolled_graph(runs.tape, runs.loops, ints.indices)
        return straight_line(
            runs.tape, ints.indices, backward=backward, what=self._what, why=runs.why
        )

    def _argument_feeds(self) -> list[Feed]:
        """Where the graph reads arguments."""
        spots = spots_of(self._variant.runs.tape, self._variant.runs.loops)
        feeds: list[Feed] = []
        done = 0
        for a, b in self._inputs.numbers(FLOAT, VALUE):
            n = len(a.leaves)
            feeds.append(Feed(spots[done : done + n], b, whole(n)))
            done += n
        return feeds

    def _step(self, memory: StepMemory, ints: Ints) -> tuple[Phases, list[Memory], list[Memory]]:
        """A whole step."""
        loops = self._variant.runs.loops
        feeds = [*self._argument_feeds(), memory.data_feed(loops)]
        graph = fed(self._graph(ints, backward=True), feeds)
        results = result_memory(name_results(self._f, len(memory.step.returned)))
        floats = [(len(a.leaves), b) for a, b in self._inputs.numbers(FLOAT)]
        update = memory.update(graph, loops, Given(floats, ints.scalars, ints.counts), results)
        phases = [("forward", graph.forward), ("backward", graph.backward), ("update", update)]
        return phases, memory.state, results

    # --- functions that call no backward

    def _function(self, ints: Ints) -> tuple[Phases, list[Memory], list[Memory]]:
        """Values; of a function with one result also its derivatives."""
        runs = self._variant.runs
        tape = runs.tape
        one = len(tape.results) == 1
        stands = tape.arrays[tape.given :]
        numbers = np.array([v.data for v in tape.state], np.float64)
        data = Memory(
            Buffer("values", F64, (len(numbers),), "state"), "values", "data of Values", numbers,
            parts_of(stands, "", "data"),
        )  # fmt: skip
        spots = spots_of(tape, runs.loops)[tape.given :]
        feeds = [*self._argument_feeds(), Feed(spots, data.buffer, whole(len(numbers)))]
        graph = fed(self._graph(ints, backward=one), feeds)
        results = result_memory(name_results(self._f, len(tape.results)))
        forward = [*graph.forward, *_returned(graph.results, results)]
        backward: list[Kernel] = []
        if one:
            derivatives = self._derivatives(graph, data, len(numbers))
            backward = [*graph.backward, *[k for _, k in derivatives]]
            results += [m for m, _ in derivatives]
        wanted = [m.buffer for m in results]
        kept = set(needed([*forward, *backward], wanted))
        phases: Phases = [
            ("forward", [k for k in forward if k in kept]),
            ("backward", [k for k in backward if k in kept]),
        ]
        return phases, [data] if len(numbers) else [], results

    def _derivatives(self, graph: Piece, data: Memory, n: int) -> list[tuple[Memory, Kernel]]:
        """By each Value among the arguments, and by the state."""
        assert graph.dx is not None, "it goes backward"
        tape = self._variant.runs.tape
        spots = spots_of(tape, self._variant.runs.loops)
        out: list[tuple[Memory, Kernel]] = []
        done = 0
        for a, b in self._inputs.numbers(FLOAT, VALUE):
            here = spots[done : done + len(a.leaves)]
            done += len(a.leaves)
            if a.kind is VALUE:
                out.append(_derivative(f"{a.path}.grad", b.shape, graph.dx, here, ()))
        if n:
            stands = tape.arrays[tape.given :]
            parts = parts_of(stands, ".grad", "derivatives")
            out.append(_derivative("grads", (n,), graph.dx, spots[done:], parts))
        return out


def _derivative(
    path: str, shape: Any, dx: Buffer, spots: Places, parts: Any
) -> tuple[Memory, Kernel]:
    buffer = Buffer(path, F64, shape, "result")
    zeros: Array = np.zeros(shape)
    memory = Memory(buffer, path, "derivatives", zeros, parts)
    (kernel,) = moved_results([(dx, int(s)) for s in spots], buffer, whole(len(spots)))
    return memory, kernel


def result_memory(names: Sequence[str]) -> list[Memory]:
    """Memory of results, single numbers."""
    return [Memory(Buffer(name, F64, (), "result"), name, "result", np.zeros(())) for name in names]


def _returned(found: Sequence[tuple[Buffer, int]], results: Sequence[Memory]) -> list[Kernel]:
    """The kernels that copy what is found to its memory."""
    return [
        k
        for at, m in zip(found, results, strict=True)
        for k in moved_results([at], m.buffer, whole(1))
    ]
