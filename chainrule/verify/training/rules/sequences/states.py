"""States: a recurrence that begins where it ended in the step before, on sequences that do not go
on there.

What batches have to do with each other their order tells: where samples are drawn, by a loader that
shuffles or from a permutation, the next batch continues none. Parts of one sequence, in a loop of
their own, may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.loops import Loop, loops_here
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.op_names import RECURRENT
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.user_frames import here, placed

_CALLS = 16
"""Calls of a step whose last states are kept: a layer is called again for each point of time."""


@dataclass(eq=False)
class _Carried:
    """Where a recurrence is begun so."""

    place: Place | None
    loop: Loop
    name: str
    times: int = 0


@final
class States(Part):
    """Finds `state_carried`."""

    title = "states of recurrences"
    rows = (
        Row(
            "state_carried",
            lambda f: f.carried.values(),
            "{times} times {name} began with the state in which the step before has left it, of "
            "the sequences of another batch; the loop on line {loop.line} draws them: the next "
            "ones do not go on where those ended",
            "begin each batch anew: with None, or with zeros",
            unless=(is_seldom,),
            subject="recurrence",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._last: list[Any] = []
        """States at the end of calls of the step before."""
        self._now: list[Any] = []
        self._place: Place | None = None
        """Of the call of a model that is running."""
        self._begun: tuple[str, Place | None] | None = None
        """What began with one of them in this step."""
        self._steps = 0
        self.carried: dict[Place | None, _Carried] = {}

    def seen(self) -> Sequence[str]:
        """In how many steps there were any."""
        return [f"{self._steps} steps"] if self._steps else []

    @on(op_events.Entered)
    def _entered(self, e: op_events.Entered) -> None:
        if not e.depth and e.recording:
            self._place = placed(e.at)

    @on(op_events.Called)
    def _called(self, e: op_events.Called) -> None:
        if e.name not in RECURRENT:
            return
        if not self._now:
            own = [x for x in _flat(e.args[1:2]) if _is_one_of(x, self._last)]
            self._begun = (e.name, self._place or placed(here())) if own else None
        ends = _flat(e.y if e.name.endswith("_cell") else e.y[1:])
        self._now = [*self._now, *[x.detach() for x in ends]][-_CALLS:]

    @on(events.StepBegins)
    def _steps_with(self, e: events.StepBegins) -> None:
        begun, self._last, self._now = self._begun, self._now or self._last, []
        self._begun, self._place = None, None
        self._steps += bool(self._last)
        loops = loops_here() if begun is not None else ()
        if begun is not None and loops and loops[0].shuffled:
            name, place = begun
            row = self.carried.setdefault(place, _Carried(place, loops[0], name))
            row.times += 1


def _flat(values: Any) -> Iterator[Any]:
    """Tensors in some that may be in tuples."""
    if hasattr(values, "shape"):
        yield values
    elif isinstance(values, tuple | list):
        for x in cast("Sequence[Any]", values):
            yield from _flat(x)


def _is_one_of(x: Any, others: Sequence[Any]) -> bool:
    """Whether a state is one of these, by its values, and not the one that all begin with."""
    same = [y for y in others if y.shape == x.shape and bool((y == x).all())]
    return bool(same) and bool((x != 0).any())
