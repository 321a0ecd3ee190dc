"""Steps for lists of several lengths as one program: its sizes, some constants and its tables are
what each call is given. What ints choose is looked up when the data is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.export.call_data import argument_names, name_results
from chainrule.compile.export.loop_program import LoopProgram, Memory
from chainrule.compile.export.scalars.arguments import FLOAT, Argument, arguments_of
from chainrule.compile.export.scalars.copies import whole
from chainrule.compile.export.scalars.piece_inputs import Feed, fed
from chainrule.compile.export.scalars.pieces import FIRST_TABLES, Piece, graph_of
from chainrule.compile.export.scalars.program import result_memory
from chainrule.compile.export.scalars.segments import with_unique_names
from chainrule.compile.export.scalars.step_memory import Given, StepMemory
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.scalars.call import Scalars
from chainrule.compile.scalars.gathers import Chosen
from chainrule.compile.scalars.reroll.program import Rolled
from chainrule.compile.scalars.steps.step import Step
from chainrule.engine.op import Array
from chainrule.errors import ConfigError
from chainrule.tree import Structure

F64 = np.dtype(np.float64)


@final
@dataclass(frozen=True, slots=True)
class _Call:
    """A call: the step that it is, its loops, what its ints choose, its floats by argument."""

    step: Step
    loops: Rolled
    chosen: Chosen
    floats: Sequence[tuple[Argument, Array]]

    def arrays(self) -> list[Array]:
        """What the loops read beside leaves: constants, parameters, sizes, tables."""
        found = [a.copy() for a in self.loops.arrays]
        place = {id(a): i for i, a in enumerate(self.loops.arrays)}
        for table, at, choice in self.loops.choices:
            found[place[id(table)]][at] = choice.addresses(self.chosen)
        return found[FIRST_TABLES:]

    def scalars(self) -> Array:
        """The ints that floats are computed from."""
        n = self.step.scalars
        return self.chosen[len(self.chosen) - n :].astype(np.float64)


Leaves = tuple[Sequence[Any], Structure]


def program_of_lengths(
    scalars: Scalars,
    f: Callable[..., Any],
    calls: Sequence[tuple[Any, Any]],
    found: Sequence[Leaves],
    what: str,
) -> LoopProgram:
    """One program for all these calls, of which there are also the leaves and their structure.

    Raises `ConfigError` if they have none in common.
    """
    each = _calls(scalars, f, calls, found, what)
    first = each[0]
    tables = _Tables(each)
    graph = graph_of(first.step.runs.tape, first.loops, tables.buffers, tables.ranges)
    scalars_of = [c.scalars() for c in each] if first.step.scalars else []
    numbers = Buffer("numbers", F64, (max(1, first.step.scalars),), "input")
    floats = [(a, Buffer(a.path, F64, a.shape, "input")) for a, _ in first.floats]
    memory, results, phases = _phases(f, first, graph, numbers, floats, what)
    rows = [[*[x for _, x in c.floats], *scalars_of[i : i + 1], *tables.varying(i)]
            for i, c in enumerate(each)]  # fmt: skip
    given = [
        *[(b, "argument") for _, b in floats],
        *[(numbers, "computed of ints") for _ in scalars_of[:1]],
        *[(b, "of this length, and these ints") for b in tables.buffers if b.value is None],
    ]
    inputs = [Memory(b, b.name, about, x) for (b, about), x in zip(given, rows[0], strict=True)]
    known = [m.buffer for m in (*inputs, *memory.state, *results)]
    return LoopProgram(
        getattr(f, "__name__", "step"),
        with_unique_names(phases, known),
        inputs,
        memory.state,
        results,
        notes=_NOTES,
        calls=rows,
    )


_NOTES = (
    "It is for lists of several lengths. What ints choose was looked up when the data was",
    "written: sizes, constants and tables of each step are in it.",
)


@final
class _Tables:
    """What the loops of calls read beside leaves: `buffers`, those that differ from call to call
    without a value, and within which `ranges` the numbers of these are."""

    def __init__(self, calls: Sequence[_Call]) -> None:
        self._arrays = [c.arrays() for c in calls]
        self.buffers: list[Buffer] = []
        self.ranges: dict[Buffer, tuple[int, int]] = {}
        objects = calls[0].loops.code.objects[FIRST_TABLES:]
        for b, column in zip(objects, zip(*self._arrays, strict=True), strict=True):
            if all(np.array_equal(x, column[0]) for x in column):
                self.buffers.append(Buffer(b.name, b.dtype, b.shape, "constant", column[0]))
                continue
            name = _NAMES.get(b.name, f"table_{b.name}")
            self.buffers.append(varying := Buffer(name, b.dtype, b.shape, "input"))
            if b.dtype.kind == "i":
                self.ranges[varying] = int(np.min(column)), int(np.max(column))

    def varying(self, call: int) -> list[Array]:
        """The arrays of a call that differ."""
        pairs = zip(self.buffers, self._arrays[call], strict=True)
        return [x for b, x in pairs if b.value is None]


_NAMES = {"c": "constants", "p": "parameters", "n": "sizes"}


def _phases(
    f: Callable[..., Any],
    first: _Call,
    graph: Piece,
    numbers: Buffer,
    floats: Sequence[tuple[Argument, Buffer]],
    what: str,
) -> Any:
    """The state, the results, and the kernels by phase."""
    memory = StepMemory(first.step, what)
    feeds: list[Feed] = []
    done = 0
    for a, b in floats:
        feeds.append(Feed(done + whole(len(a.leaves)), b, whole(len(a.leaves))))
        done += len(a.leaves)
    graph = fed(graph, [*feeds, memory.data_feed(first.loops)])
    results = result_memory(name_results(f, len(first.step.returned)))
    sizes = [(len(a.leaves), b) for a, b in floats]
    given = Given(sizes, numbers, numbers)
    update = memory.update(graph, first.loops, given, results)
    phases = [("forward", graph.forward), ("backward", graph.backward), ("update", update)]
    return memory, results, [p for p in phases if p[1]]


def _calls(
    scalars: Scalars,
    f: Callable[..., Any],
    calls: Sequence[tuple[Any, Any]],
    found: Sequence[Leaves],
    what: str,
) -> list[_Call]:
    """The calls, with loops that share their code."""
    steps: list[tuple[Step, Chosen, Any]] = []
    ints = [[x for x in leaves if type(x) is int] for leaves, _ in found]
    for (args, kwargs), (leaves, structure), mine in zip(calls, found, ints, strict=True):
        others = [x for x in ints if len(x) == len(mine)]
        variant = scalars.variant_for(args, kwargs, others)
        chosen = variant.chosen(mine)
        if variant.step is None or chosen is None or variant.step.state.counts:
            raise _refused(what, "only steps that change no ints are written for several")
        names = dict(enumerate(argument_names(f, structure)))
        numbers = [a for a in arguments_of(names, structure, leaves) if a.kind is FLOAT]
        steps.append((variant.step, chosen, [(a, a.read(leaves, what)) for a in numbers]))
    distinct = list({id(step): step for step, _, _ in steps}.values())
    loops = scalars.known.common([step.runs.tape for step in distinct])
    if isinstance(loops, str):
        raise _refused(what, loops)
    step, chosen, floats = steps[0]
    step.settle([x for _, a in floats for x in a.ravel().tolist()], chosen, graph=False)
    by_step = {id(step): made for step, made in zip(distinct, loops, strict=True)}
    out = [_Call(step, by_step[id(step)], chosen, floats) for step, chosen, floats in steps]
    _compare(out, what)
    return out


def _compare(calls: Sequence[_Call], what: str) -> None:
    """Refuse calls that have more than lengths apart, and loops that do not agree with the tape."""
    first = calls[0]
    shapes = [[(a.path, a.shape) for a, _ in c.floats] for c in calls]
    room = first.step.room_in_order(first.loops)
    for c, shape in zip(calls, shapes, strict=True):
        if shape != shapes[0]:
            raise _refused(what, "their floats are not as many")
        if not room or c.step.room_in_order(c.loops) != room:
            raise _refused(what, "they read other Values")
        if c.step.update is not first.step.update or c.step.returned != first.step.returned:
            raise _refused(what, "what they do after the backward pass is another thing")
        floats = [x for _, a in c.floats for x in a.ravel().tolist()]
        if not c.step.agrees_with(c.loops, floats, c.chosen):
            raise _refused(what, "loops for all lengths gave other numbers than the program")


def _refused(what: str, why: str) -> ConfigError:
    return ConfigError(
        f"{what}: the batches have arguments of several lengths, which are one program only where "
        f"they differ in nothing else: {why}. Write a file for each length"
    )
