"""A compiled step: forward and backward by the graph's program, then the update, then what is
written goes to the arrays of the state, or to where the program has it."""

# A result's gradient is what Value keeps to itself.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.scalars.gathers import Chosen, as_chosen
from chainrule.compile.scalars.reroll.known_programs import Known
from chainrule.compile.scalars.reroll.program import Rolled
from chainrule.compile.scalars.results import Slopes, result_of_state
from chainrule.compile.scalars.runs import Runs
from chainrule.compile.scalars.steps.effects import Effects, Fill, Outputs, Places, Write, index
from chainrule.compile.scalars.steps.hollow import LOCK
from chainrule.compile.scalars.steps.memory import DATA, GRADIENT, LIST
from chainrule.compile.scalars.steps.numbers import TracedNumber, number_of
from chainrule.compile.scalars.steps.outcome import FLOAT, INT, RESULT, SLOPE, Outcome, RecordedStep
from chainrule.compile.scalars.steps.steady import Steady, steady
from chainrule.compile.scalars.steps.storage import Storages
from chainrule.compile.scalars.steps.update import Updates
from chainrule.compile.trace.guards.watcher import Watcher
from chainrule.compile.trace.variant import MISFIT
from chainrule.engine.op import Array
from chainrule.errors import TraceError
from chainrule.scalar import Value
from chainrule.tree import flatten


@final
class Step:
    """What runs in the place of a step."""

    def __init__(
        self,
        found: RecordedStep,
        known: Known,
        updates: Updates,
        storages: Storages,
        stays: Watcher,
    ) -> None:
        first = found.outcomes[0]
        self._stays = stays
        self.state = state = found.state
        self.runs = Runs(found.tape, known)
        self.structure = found.structure
        self._storage = storage = storages.of(state)
        rank = {id(v): i for i, v in enumerate(state.values)}
        self.places = np.array([rank.get(id(v), -1) for v in found.tape.state], np.int64)
        if (self.places < 0).any():
            raise TraceError("jit: a step reads a Value that it reaches by no name")
        self._floats = len(first.leaves)
        self.scalars = len(first.steps.scalars)
        self._counts = slice(len(first.steps.indices), len(first.steps.indices) + len(first.counts))
        self._room = 0
        self._room_of: Rolled | None = None
        outputs: list[int] = []
        each = [self._effects_of(first, kind, left, outputs) for kind, left in _left(first)]
        effects = Effects([w for p in each for w in p.writes], [f for p in each for f in p.fills])
        self.effects = storage.effects(effects)
        self.returned = [_returned(y, first, outputs) for y in flatten(first.returned)[0]]
        self._is_root = self.structure.kind is None and self.returned == [("value", 0)]
        """Whether it returns what `backward` is called on, and nothing else."""
        self.update = updates.update(first.nodes, outputs, self.effects)
        kinds = self.update.tape.kinds
        self._needed = [k for k in storage.kinds() if k in kinds or k == (DATA,)]
        self._moved = False
        self._steady: Steady | None = None
        self._zeros = np.zeros(len(state.values))

    def room_in_order(self, loops: Rolled) -> int:
        """How many numbers of Values the loops have room for, if those are the first of the state,
        in its order; else 0."""
        if self._room_of is not loops:
            self._room_of = loops
            given, first = self._floats, loops.first
            room = len(loops.numbers) - first
            in_order = np.array_equal(loops.spots[given:] - first, self.places)
            one = len(loops.families.results) == 1
            one = one and np.array_equal(loops.spots[:given], np.arange(given))
            fits = in_order and one and room <= len(self.state.values)
            self._room = room if fits else 0
        return self._room

    def _effects_of(
        self, first: Outcome, kind: Any, left: Sequence[Any], outputs: list[int]
    ) -> Effects:
        """What is to be written to the numbers of one kind."""
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
        writes = [Write(kind, _among(traced, left), start, len(outputs))] if traced else []
        return Effects(writes, [Fill(kind, _among(at, left), x) for x, at in things.values()])

    def call(self, floats: Sequence[float], chosen: Chosen) -> Any:
        """The value of the step, which is done."""
        with LOCK:
            found = chosen.tolist()
            y = self._call_steadily(floats, found, watched=False)
            y = self._call_slowly(floats, chosen) if y is MISFIT else y
            self._count(found)
            return y

    def call_if_it_stays(self, floats: Sequence[float], found: Sequence[int]) -> Any:
        """The same if all that the step reads is certainly as it was; else `MISFIT`. `found` are
        the ints that are chosen."""
        with LOCK:
            y = self._call_steadily(floats, found, watched=True)
            if y is MISFIT and self._stays():
                chosen = as_chosen(found)
                y = MISFIT if chosen is None else self._call_slowly(floats, chosen)
            if y is not MISFIT:
                self._count(found)
            return y

    def settle(self, floats: Sequence[float], chosen: Chosen, *, graph: bool = True) -> None:
        """Make its loops now, if there are to be any, for a call with these numbers: those of the
        `graph`, and of the update. Nothing that it trains is changed."""
        with LOCK:
            self.update.reclaim()
            given = self._storage.load(self._needed)
            if graph:
                self.runs.settle(floats, chosen, given[DATA,][self.places])
            results, _, slope = self._differentiate(given[DATA,], floats, chosen)
            self.update.settle(self._inputs(given, floats, chosen, results, slope))

    def agrees_with(self, loops: Rolled, floats: Sequence[float], chosen: Chosen) -> bool:
        """Whether loops give what the tape does for the data as they are and for others."""
        with LOCK:
            data = self._storage.load([(DATA,)])[DATA,]
            return self.runs.agrees_with(loops, floats, chosen, data[self.places])

    def _count(self, found: Sequence[int]) -> None:
        """Write the ints that the step changes."""
        if self.state.counts:
            for c, x in zip(self.state.counts, found[self._counts], strict=True):
                c.write(x)

    def _call_steadily(
        self, floats: Sequence[float], found: Sequence[int], *, watched: bool
    ) -> Any:
        """The value of the step if its commands can be run; else `MISFIT`."""
        self.update.reclaim()
        steady = self._steady
        done = None if steady is None else steady.run(floats, found, watched)
        if done is None or steady is None:
            return MISFIT
        slopes = self.update.lend(Slopes(steady.slopes, self.places))
        if self._is_root:
            y = result_of_state(done, self.runs.state, slopes)
            y._g = 1
            return y
        return self._result([done], [slopes], self.update.outputs)

    def _call_slowly(self, floats: Sequence[float], chosen: Chosen) -> Any:
        """The same, command by command; everything has its place afterwards."""
        given = self._storage.load(self._needed)
        results, slopes, slope = self._differentiate(given[DATA,], floats, chosen)
        outputs = self.update.run(self._inputs(given, floats, chosen, results, slope))
        self._storage.store(self.effects, outputs)
        y = self._result(results, slopes, outputs)
        self._steady = self._commands(chosen)
        return y

    def _commands(self, chosen: Chosen) -> Steady | None:
        """The step as commands, if it can be said by them."""
        loops, straight = self.runs.loops, self.update.loops
        if loops is None or straight is None:
            return None
        room = self.room_in_order(loops)
        if not room:
            return None
        if not self._moved:
            self._move()
        if not self._storage.leaves.hollow:
            return None
        sizes = self._floats, room, self.scalars
        of = (self.update.tape, straight), sizes, chosen, self._stays
        return steady(self._storage, self.effects, loops, *of)

    def _result(self, results: Sequence[float], slopes: Sequence[Slopes], outputs: Outputs) -> Any:
        """What the step returns."""
        out: list[Any] = []
        for kind, i in self.returned:
            if kind == "number":
                out.append(float(outputs(i, i + 1)[0]))
            else:
                v = result_of_state(float(results[i]), self.runs.state, slopes[i])
                v._g = 1 if i == 0 else 0
                out.append(v)
        return self.structure.unflatten(out)

    def _move(self) -> None:
        """Let the state's arrays be where the update's loops read them."""
        self._moved = True
        for kind in self._needed:
            numbers = self.update.memory(kind)
            if numbers is not None and len(numbers) == self._storage.count(kind):
                self._storage.move(kind, numbers)

    def _differentiate(
        self, data: Array, floats: Sequence[float], chosen: Chosen
    ) -> tuple[Sequence[float], Sequence[Slopes], Array]:
        """The results; the derivatives of each; those of the first by the places of the state."""
        loops, first = self.runs.loops, self._floats
        room = 0 if loops is None else self.room_in_order(loops)
        if loops is not None and room:
            result, found = loops.once(floats, data[:room], chosen)
            return [result], [Slopes(found, self.places)], self._widened(found)
        results, rows = self.runs.run(floats, chosen, data[self.places])
        slope = self._zeros.copy()
        slope[self.places] = rows[0, first:]
        return results.tolist(), [Slopes(x[first:]) for x in rows], slope

    def _widened(self, slope: Array) -> Array:
        """The derivatives by all that is in the state, where those behind the last are 0."""
        missing = len(self._zeros) - len(slope)
        return np.concatenate([slope, self._zeros[:missing]]) if missing else slope

    def _inputs(
        self,
        given: Mapping[Any, Array],
        floats: Sequence[float],
        chosen: Chosen,
        results: Sequence[float],
        slope: Array,
    ) -> dict[Any, Array]:
        """What an update is computed from."""
        return {
            **given,
            (SLOPE,): slope,
            (RESULT,): np.array(results, np.float64),
            (FLOAT,): np.array(floats, np.float64),
            (INT,): chosen[len(chosen) - self.scalars :].astype(np.float64),
        }

    def agrees(self, outcome: Outcome, chosen: Chosen) -> bool:
        """Whether it does what a run of the program did, for the numbers that this found."""
        before = {k: np.array(x, np.float64) for k, x in outcome.before.items()}
        x = np.concatenate([outcome.floats, before[DATA,][self.places]])
        results, rows = self.runs.tape.run(x, chosen)
        slope = self._zeros.copy()
        slope[self.places] = rows[0, self._floats :]
        tape = self.update.tape
        inputs = self._inputs(before, outcome.floats, chosen, results.tolist(), slope)
        found = tape.run(lambda x: tape.fill(x, inputs))
        left = before
        for w in self.effects.writes:
            left[w.kind][index(w.among)] = found[w.start : w.stop]
        for f in self.effects.fills:
            left[f.kind][index(f.among)] = f.thing
        pairs = [
            pair
            for kind, after in _left(outcome)
            for pair in zip(map(number_of, after), left[kind].tolist(), strict=True)
        ]
        for y, (kind, i) in zip(flatten(outcome.returned)[0], self.returned, strict=True):
            z = found[i] if kind == "number" else results[i]
            pairs.append((number_of(y.data if isinstance(y, Value) else y), float(z)))
        # complex is what Python makes of numbers that the program does not meet
        known = [(a, b) for a, b in pairs if not isinstance(a, complex)]
        want, got = np.array(known, np.float64).reshape(-1, 2).T
        return bool(np.allclose(want, got, rtol=1e-7, atol=1e-12, equal_nan=True))


def _left(outcome: Outcome) -> list[tuple[Any, Sequence[Any]]]:
    """What a run left, by kind."""
    lists = [((LIST, k), x) for k, x in enumerate(outcome.lists)]
    return [((DATA,), outcome.data), ((GRADIENT,), outcome.gradients), *lists]


def _among(places: list[int], all_of: Sequence[Any]) -> Places | None:
    return None if places == list(range(len(all_of))) else np.array(places, np.int64)


def _returned(y: Any, first: Outcome, outputs: list[int]) -> tuple[str, int]:
    """What is returned: a number of the update, or a result of the graph."""
    if type(y) is TracedNumber:
        outputs.append(y.node)
        return "number", len(outputs) - 1
    values = [x for x in flatten(first.returned)[0] if isinstance(x, Value) and x is not first.root]
    return "value", 0 if y is first.root else 1 + [x is y for x in values].index(True)
