"""A compiled step: forward and backward by the graph's program, then the update, then everything is
written where the program has it."""

# A result's gradient is what Value keeps to itself.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from chainrule.compile.scalars.gathers import Chosen
from chainrule.compile.scalars.reroll.known import Known
from chainrule.compile.scalars.results import result_of
from chainrule.compile.scalars.runs import Runs
from chainrule.compile.scalars.steps.numbers import TracedNumber, number_of
from chainrule.compile.scalars.steps.outcome import (
    FLOAT,
    INT,
    RESULT,
    SLOPE,
    Outcome,
    RecordedStep,
)
from chainrule.compile.scalars.steps.state import DATA, GRADIENT, LIST, Memory
from chainrule.compile.scalars.steps.update import Updates
from chainrule.engine.op import Array
from chainrule.errors import TraceError
from chainrule.scalar import Value
from chainrule.tree import flatten

Places = NDArray[np.int64]


@final
@dataclass(slots=True)
class _Write:
    """Numbers that go to some places of a memory, all where `among` is None: `count` of the
    outputs, from `start` on."""

    memory: Memory
    among: Places | None
    start: int
    count: int


@final
@dataclass(slots=True)
class _Fill:
    """One object that goes to some places of a memory."""

    memory: Memory
    among: Places | None
    thing: Any


@final
class Step:
    """What runs in the place of a step."""

    def __init__(self, found: RecordedStep, known: Known, updates: Updates) -> None:
        first = found.outcomes[0]
        self.state = state = found.state
        self.runs = Runs(found.tape, known)
        self.structure = found.structure
        self._memories: dict[Any, Memory] = {(DATA,): Memory(DATA, state.values)}
        self._memories[GRADIENT,] = Memory(GRADIENT, state.values)
        self._memories |= {(LIST, k): Memory(LIST, x) for k, x in enumerate(state.lists)}
        self._values = len(state.values)
        rank = {id(v): i for i, v in enumerate(state.values)}
        self._places = np.array([rank.get(id(v), -1) for v in found.tape.state], np.int64)
        if (self._places < 0).any():
            raise TraceError("jit: a step reads a Value that it reaches by no name")
        self._floats = len(first.leaves)
        self._scalars = len(first.steps.scalars)
        self._writes: list[_Write] = []
        self._fills: list[_Fill] = []
        outputs: list[int] = []
        for kind, left in _left(first):
            self._plan(first, kind, left, outputs)
        self._returned = [_returned(y, first, outputs) for y in flatten(first.returned)[0]]
        self.update = updates.update(first.nodes, outputs)
        kinds = self.update.tape.kinds
        self._needed = [k for k in self._memories if k in kinds or k == (DATA,)]

    def _plan(self, first: Outcome, kind: Any, left: Sequence[Any], outputs: list[int]) -> None:
        """What is to be written to one memory."""
        memory = self._memories[kind]
        traced: list[int] = []
        start = len(outputs)
        things: dict[Any, tuple[Any, list[int]]] = {}
        for i, x in enumerate(left):
            if type(x) is TracedNumber:
                if first.nodes.nodes[x.node] != ("input", (*kind, i)):
                    traced.append(i)
                    outputs.append(x.node)
            else:  # all that was not written is a number of `nodes`
                things.setdefault((type(x), repr(x)), (x, []))[1].append(i)
        if traced:
            self._writes.append(_Write(memory, _among(traced, memory), start, len(traced)))
        for thing, places in things.values():
            self._fills.append(_Fill(memory, _among(places, memory), thing))

    def call(self, floats: Sequence[float], chosen: Chosen) -> Any:
        """The value of the step, which is done."""
        given = {k: np.empty(self._memories[k].count) for k in self._needed}
        for kind, numbers in given.items():
            self._memories[kind].read(numbers)
        found, results, slopes = self._compute(given, floats, chosen)
        for w in self._writes:
            w.memory.write(found[w.start : w.start + w.count], w.among)
        for f in self._fills:
            f.memory.fill(f.thing, f.among)
        out: list[Any] = []
        for kind, i in self._returned:
            if kind == "number":
                out.append(float(found[i]))
            else:
                v = result_of(float(results[i]), [], self.runs.state, slopes[i][self._floats :])
                v._g = 1 if i == 0 else 0
                out.append(v)
        return self.structure.unflatten(out)

    def _compute(
        self, given: dict[Any, Array], floats: Sequence[float], chosen: Chosen
    ) -> tuple[Array, Array, Array]:
        """The outputs of the update; results and their derivatives."""
        results, slopes = self.runs.run(floats, chosen, given[DATA,][self._places])
        return (
            self.update.run(self._inputs(given, floats, chosen, results, slopes)),
            results,
            slopes,
        )

    def _inputs(
        self, given: Any, floats: Sequence[float], chosen: Chosen, results: Array, slopes: Array
    ) -> dict[Any, Array]:
        """What an update is computed from."""
        slope = np.zeros(self._values)
        slope[self._places] = slopes[0, self._floats :]
        return {
            **given,
            (SLOPE,): slope,
            (RESULT,): results,
            (FLOAT,): np.array(floats, np.float64),
            (INT,): chosen[len(chosen) - self._scalars :].astype(np.float64),
        }

    def agrees(self, outcome: Outcome, chosen: Chosen) -> bool:
        """Whether it does what a run of the program did, for the numbers that this found."""
        given = {k: np.array(outcome.before[k], np.float64) for k in self._needed}
        x = np.concatenate([outcome.floats, given[DATA,][self._places]])
        results, slopes = self.runs.tape.run(x, chosen)
        tape = self.update.tape
        inputs = self._inputs(given, outcome.floats, chosen, results, slopes)
        found = tape.run(lambda x: tape.fill(x, inputs))
        kinds = {id(m): k for k, m in self._memories.items()}
        left = {k: np.array(outcome.before[k], np.float64) for k in self._memories}
        for w in self._writes:
            left[kinds[id(w.memory)]][_index(w.among)] = found[w.start : w.start + w.count]
        for f in self._fills:
            left[kinds[id(f.memory)]][_index(f.among)] = f.thing
        pairs = [
            pair
            for kind, after in _left(outcome)
            for pair in zip(map(number_of, after), left[kind].tolist(), strict=True)
        ]
        for y, (kind, i) in zip(flatten(outcome.returned)[0], self._returned, strict=True):
            z = found[i] if kind == "number" else results[i]
            pairs.append((number_of(y.data if isinstance(y, Value) else y), float(z)))
        # complex is what Python makes of numbers that the program does not meet
        known = [(a, b) for a, b in pairs if not isinstance(a, complex)]
        want, got = np.array(known, np.float64).reshape(-1, 2).T
        return bool(np.allclose(want, got, rtol=1e-7, atol=1e-12, equal_nan=True))


def _index(among: Places | None) -> Any:
    return slice(None) if among is None else among


def _left(outcome: Outcome) -> list[tuple[Any, Sequence[Any]]]:
    """What a run left, by kind."""
    lists = [((LIST, k), x) for k, x in enumerate(outcome.lists)]
    return [((DATA,), outcome.data), ((GRADIENT,), outcome.gradients), *lists]


def _among(places: list[int], memory: Memory) -> Places | None:
    return None if places == list(range(memory.count)) else np.array(places, np.int64)


def _returned(y: Any, first: Outcome, outputs: list[int]) -> tuple[str, int]:
    """What is returned: a number of the update, or a result of the graph."""
    if type(y) is TracedNumber:
        outputs.append(y.node)
        return "number", len(outputs) - 1
    values = [x for x in flatten(first.returned)[0] if isinstance(x, Value) and x is not first.root]
    return "value", 0 if y is first.root else 1 + [x is y for x in values].index(True)
