"""What a step does after its backward pass, as a tape without derivatives, and as loops.

All numbers of one kind are one array, in the order in which the step finds them: what is done alike
to all parameters is one family, whatever matrices they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from chainrule.compile.scalars.gathers import NONE, Gathers
from chainrule.compile.scalars.machine import all_codes, loops
from chainrule.compile.scalars.reroll.containers import Stand
from chainrule.compile.scalars.reroll.in_place_results import Home
from chainrule.compile.scalars.reroll.known_programs import Known
from chainrule.compile.scalars.reroll.program import Straight
from chainrule.compile.scalars.results import Slopes
from chainrule.compile.scalars.steps.effects import NO_PLACES, Effects, Outputs, Write
from chainrule.compile.scalars.steps.numbers import Arithmetic, Input
from chainrule.compile.scalars.steps.outcome import FLOAT
from chainrule.engine.op import Array

Kind = tuple[Any, ...]
"""What an array of inputs is: an input's key without its last entry, which is the place there."""


@final
class UpdateTape:
    """The nodes below `outputs` as a tape; see `units.Recorded`, of which it is one. `kinds` are
    the arrays of its inputs, each with where it begins among all of them and the places that are
    used."""

    def __init__(self, nodes: Arithmetic, outputs: Sequence[int]) -> None:
        used = _below(nodes, outputs)
        inputs = sorted([n for n in used if nodes.nodes[n][0] == "input"], key=_key(nodes))
        keys: list[Input] = [nodes.nodes[n][1] for n in inputs]
        constants = [n for n in used if nodes.nodes[n][0] == "constant"]
        rest = [n for n in used if nodes.nodes[n][0] not in ("input", "constant")]
        order = [*inputs, *constants, *rest]
        at = {n: i for i, n in enumerate(order)}
        self.leaves, self.given = len(inputs), 0
        self.base = self.leaves + len(constants)
        self.size = len(order)
        self.arrays: list[Stand] = [((*k[:-1], 1), (k[-1],)) for k in keys]
        self.spots = np.arange(self.leaves)
        self.room = self.leaves
        self.whole, self.whole_room = self.spots, self.room
        self.constant_data = np.array([float(nodes.nodes[n][1]) for n in constants], np.float64)
        self.made = 0
        codes = all_codes()
        lines = [nodes.nodes[n] for n in rest]
        self.code = np.array([codes[line[0]] for line in lines], np.int32)
        self.left = np.array([at[line[1]] for line in lines], np.int32)
        self.right = np.array([at[line[-1]] for line in lines], np.int32)
        self.need = np.zeros(len(lines), np.int32)
        self.tops = np.zeros(len(lines), np.bool_)
        self.files, self.lines = [""], np.zeros((len(lines), 2), np.int32)
        self.gathers = Gathers(NONE, [], NONE, NONE)
        self.results = [at[n] for n in outputs]
        self.kinds: dict[Kind, tuple[int, NDArray[np.int64]]] = {}
        for i, key in enumerate(keys):
            if key[:-1] not in self.kinds:
                places = [k[-1] for k in keys if k[:-1] == key[:-1]]
                self.kinds[key[:-1]] = i, np.array(places, np.int64)

    def fill(self, x: Array, given: Mapping[Kind, Array]) -> None:
        """Write the numbers of the leaves into x, from arrays of each kind."""
        for kind, (start, places) in self.kinds.items():
            n, array = len(places), given[kind]
            if array.base is not x:  # it is there already
                x[start : start + n] = array if n == len(array) else array[places]

    def run(self, fill: Callable[[Array], None]) -> Array:
        """All outputs for the numbers that `fill` writes."""
        x = np.empty(self.size)
        fill(x)
        x[self.leaves : self.base] = self.constant_data
        arrays = (self.code, self.need, self.left, self.right, x, x)
        loops().forward(*[a.ctypes.data for a in arrays], len(self.code), self.base)
        return x[self.results]


def _key(nodes: Arithmetic) -> Any:
    def key(n: int) -> Any:
        *kind, place = nodes.nodes[n][1]
        return list(map(str, kind)), place

    return key


def _below(nodes: Arithmetic, outputs: Sequence[int]) -> list[int]:
    """The nodes that outputs are computed from, operands first."""
    wanted = set(outputs)
    for n in range(len(nodes.nodes) - 1, -1, -1):
        label, *operands = nodes.nodes[n]
        if n in wanted and label not in ("input", "constant"):
            wanted.update(operands)
    return sorted(wanted)


def _used(nodes: Arithmetic, outputs: Sequence[int]) -> tuple[Arithmetic, list[int]]:
    """The nodes below outputs alone: arguments that an update does not read make no other one."""
    order = _below(nodes, outputs)
    at = {n: i for i, n in enumerate(order)}
    out = Arithmetic()
    for n in order:
        label, *operands = nodes.nodes[n]
        leaf = label in ("input", "constant")
        out.nodes.append((label, *operands) if leaf else (label, *[at[x] for x in operands]))
    return out, [at[n] for n in outputs]


CALLS, LEAST = 3, 512
"""The call from which on loops run, and the operations that are worth it."""


@final
class Update:
    """Runs an update: by its tape at first, then by loops, if it has any."""

    def __init__(self, tape: UpdateTape, known: Known, writes: Sequence[Write]) -> None:
        self.tape = tape
        self._known = known
        self._homes = _homes(tape, writes)
        self._calls = 0
        self._lent: ref[Slopes] | None = None
        self.loops: Straight | None = None
        self.why = f"it is rolled up at call {CALLS}"

    def run(self, given: Mapping[Kind, Array]) -> Outputs:
        """Tells outputs from a number to another one, for arrays of the inputs; until it runs the
        next time."""
        if self.loops is not None:
            self.loops.run(lambda x: self.tape.fill(x, given))
            return self.outputs
        self._calls += 1
        if self._calls == CALLS:
            self._roll(given)
        found = self.tape.run(lambda x: self.tape.fill(x, given))
        return lambda start, stop: found[start:stop]

    def settle(self, given: Mapping[Kind, Array]) -> None:
        """Make its loops now, if there are to be any, which have to agree for arrays like these."""
        if self.loops is None and self._calls < CALLS:
            self._calls = CALLS
            self._roll(given)

    def outputs(self, start: int, stop: int) -> Array:
        """Outputs of its loops' latest run."""
        assert self.loops is not None, "it has loops"
        return self.loops.results(start, stop)

    def memory(self, kind: Kind) -> Array | None:
        """Where its loops read the numbers of a kind, if all of them lie in a row there."""
        if self.loops is None or kind not in self.tape.kinds:
            return None
        start, places = self.tape.kinds[kind]
        in_order = np.array_equal(places, np.arange(len(places)))
        return self.loops.leaves[start : start + len(places)] if in_order else None

    def lend(self, slopes: Slopes) -> Slopes:
        """Note who has derivatives in memory that a later step writes over."""
        self._lent = ref(slopes)
        return slopes

    def reclaim(self) -> None:
        """Let who still has them have a copy."""
        slopes = None if self._lent is None else self._lent()
        if slopes is not None:
            slopes.copy()
        self._lent = None

    def _roll(self, given: Mapping[Kind, Array]) -> None:
        """Make loops of the tape; `why` says it if there are none."""
        n = len(self.tape.code)
        if n < LEAST:
            self.why = f"it has only {n} operations"
            return
        made = self._known.straight(self.tape, self._homes)
        if isinstance(made, str):
            self.why = made
            return

        def moved(x: Array) -> None:
            self.tape.fill(x, given)
            x[: self.tape.leaves] *= 1.37

        fills: list[Callable[[Array], None]] = [lambda x: self.tape.fill(x, given), moved]
        n = len(self.tape.results)
        for fill in fills:
            made.run(fill)
            if not _agree(made.results(0, n), self.tape.run(fill), self._known.any_order):
                break
        else:
            self.loops = made
            return
        self.why = "its loops gave other numbers than the tape"


@final
class Updates:
    """The updates of a function, mostly one: what it does to its parameters does not depend on what
    they are trained with."""

    def __init__(self, *, any_order: bool = False) -> None:
        self._known = Known(any_order=any_order)
        self._made: list[tuple[Any, Any, Effects, Update]] = []

    def update(self, nodes: Arithmetic, outputs: Sequence[int], effects: Effects) -> Update:
        """The one that computes these nodes, for a step with these effects."""
        if any(node[0] == "input" and node[1][0] == FLOAT for node in nodes.nodes):
            nodes, outputs = _used(nodes, outputs)
        for same, wanted, to, update in self._made:
            if wanted == outputs and to is effects and same == nodes.nodes:
                return update
        made = Update(UpdateTape(nodes, outputs), self._known, effects.writes)
        self._made = [*self._made[-3:], (nodes.nodes, outputs, effects, made)]
        return made


def _homes(tape: UpdateTape, writes: Sequence[Write]) -> list[Home]:
    """Where outputs go if these are the places of inputs, all in a row."""
    homes: list[Home] = []
    for w in writes:
        start, places = tape.kinds.get(w.kind, (0, NO_PLACES))
        n = w.stop - w.start
        first = 0 if w.among is None else int(w.among[0])
        wanted = np.arange(first, first + n)
        rows = (places[first : first + n], wanted if w.among is None else w.among)
        if all(np.array_equal(x, wanted) for x in rows):
            homes.append(Home(w.start, w.stop, start + first))
    return homes


def _agree(a: Array, b: Array, any_order: bool) -> bool:
    near = 1e-12 if any_order else 0  # what is left of larger numbers
    return bool(np.allclose(a, b, rtol=1e-12, atol=near, equal_nan=True))
