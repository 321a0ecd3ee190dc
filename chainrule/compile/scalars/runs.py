"""The runs of a recorded function: by its tape at first, then by loops, if it has any.

To roll a tape up and to compile its loops takes about as long as a thousand runs of it. So only a
function that is called again and again is rolled up, and a tape with few repetitions stays one.
Loops have to give what the tape gives, on the numbers of that call and on others: values to the
bit, derivatives to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import final

import numpy as np

from chainrule.compile.runtime.backend import without_gc
from chainrule.compile.scalars.gathers import NONE, Chosen
from chainrule.compile.scalars.leaves import Leaves
from chainrule.compile.scalars.reroll.known_programs import Known
from chainrule.compile.scalars.reroll.program import Rolled
from chainrule.compile.scalars.tape import Tape
from chainrule.engine.op import Array

CALLS = 3
"""The call from which on loops run."""
PART = 0.25
"""Where the function has loops for another tape, so much of the time that it took to compile these
has to be spent on a tape first: those of rare lengths are not worth it."""
LEAST = 512
"""Instructions of a tape that is worth it."""
ROUNDING = 1e-11
"""How far a derivative may be off, in parts of the largest one."""

Results = tuple[Array, Array]


@final
class Runs:
    """Runs `tape`, or its loops; `why` says why it has none, `alone` why these are for its length
    only, where there were others. `known` is what other tapes of the function became."""

    def __init__(self, tape: Tape, known: Known) -> None:
        self.tape = tape
        self._known = known
        self.loops: Rolled | None = None
        self.alone = ""
        self.why = f"it is rolled up at call {CALLS}"
        if known.seconds:
            self.why = "it is rolled up when it has run for longer"
        self.state = Leaves(tape.state)
        self._calls = 0
        self._spent = 0.0
        self._decided = False

    def run(
        self, given: Sequence[float], chosen: Chosen = NONE, state: Array | None = None
    ) -> Results:
        """The results for these numbers and those of the state, and of each its derivatives with
        respect to all leaves, a row each. `chosen` are the indices of gathers, `state` the numbers
        of the state, where they are known."""
        x = self._numbers(given, state)
        if self.loops is not None:
            return self.loops.run(x, chosen)
        self._calls += 1
        if self._decided:
            return self.tape.run(x, chosen)
        if self._calls == 1 and self._known.framed:
            self._take_frame(x, chosen)
        elif self._calls >= CALLS and self._spent >= PART * self._known.seconds:
            self._decided = True
            self._roll(x, chosen)
        start = perf_counter()
        found = self.tape.run(x, chosen)
        self._spent += perf_counter() - start
        return found

    def _numbers(self, given: Sequence[float], state: Array | None) -> Array:
        """Those of all leaves."""
        x = np.empty(self.tape.leaves)
        x[: len(given)] = given
        if state is None:
            self.state.read(x[len(given) :])
        else:
            x[len(given) :] = state
        return x

    def settle(
        self, given: Sequence[float], chosen: Chosen = NONE, state: Array | None = None
    ) -> None:
        """Make the loops now, if there are to be any; see `run`."""
        x = self._numbers(given, state)
        if not self._decided and self._known.framed:
            self._take_frame(x, chosen)
        if not self._decided:
            self._decided = True
            self._roll(x, chosen)

    def stay_tape(self, why: str) -> None:
        """Make no loops."""
        self.why = why
        self._decided = True

    def _roll(self, numbers: Array, chosen: Chosen) -> None:
        """Make the loops, if it is worth it and they agree with the tape."""
        n = len(self.tape.code)
        if n < LEAST:
            self.why = f"it has only {n} operations"
            return
        try:
            with without_gc():
                loops = self._known.rolled(self.tape)
        except TypeError as unknown:
            loops = str(unknown)
        if isinstance(loops, str):
            self.why = loops
        elif not self._take(loops, numbers, chosen):
            self.why = "its loops gave other numbers than the tape"

    def _take_frame(self, numbers: Array, chosen: Chosen) -> None:
        """Take the loops of other sizes, if they are this tape's, too."""
        if len(self.tape.code) >= LEAST:
            with without_gc():
                loops = self._known.in_frame(self.tape)
            self._decided = loops is not None and self._take(loops, numbers, chosen)

    def _take(self, loops: Rolled, numbers: Array, chosen: Chosen) -> bool:
        """Take these loops if they agree with the tape."""
        if self._agrees(loops, numbers, chosen):
            self.loops, self.alone = loops, self._known.why
        return self.loops is not None

    def agrees_with(
        self, loops: Rolled, given: Sequence[float], chosen: Chosen, state: Array
    ) -> bool:
        """Whether loops give what the tape does; see `run`."""
        return self._agrees(loops, self._numbers(given, state), chosen)

    def _agrees(self, loops: Rolled, numbers: Array, chosen: Chosen) -> bool:
        """The same for these numbers of all leaves, and for others."""
        moved = numbers * (1 + 0.01 * np.cos(np.arange(len(numbers))))
        calls = (numbers, chosen), (moved, self.tape.gathers.other(chosen))
        exact = not self._known.any_order
        return all(_agree(self.tape.run(*x), loops.run(*x), exact) for x in calls)


def _agree(want: Results, got: Results, exact: bool) -> bool:
    """Whether values are the same bits, if they are to be `exact`, and all else to rounding."""
    if not np.array_equal(want[0], got[0], equal_nan=True) and (
        exact or not np.allclose(*want[:1], *got[:1], rtol=1e-9, atol=1e-12, equal_nan=True)
    ):
        return False
    for a, b in zip(want[1], got[1], strict=True):
        near = ROUNDING * np.abs(a[np.isfinite(a)]).max(initial=0.0)
        if not np.allclose(a, b, rtol=1e-9, atol=near, equal_nan=True):
            return False
    return True
