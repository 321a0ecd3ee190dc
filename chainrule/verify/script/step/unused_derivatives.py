"""Derivatives by parameters that the step takes and lets go: neither a loss, nor an update, nor a
number that is shown comes of them. So the adapted parameters of an inner loop get lost, where the
outer loss uses the original ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chainrule.verify.place import Place
from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.record.tape import GRAD, Entry, Slot, Tape, forth
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.training.text.unread_results import unused_value
from chainrule.verify.user_frames import placed


@dataclass(frozen=True, eq=False)
class Unused:
    """A derivative of which nothing came, as far as was seen."""

    place: Place
    """Where parameters were used in its place."""
    taken: Place
    left: Sequence[weakref.ref[Any]]
    """What was made of it and still is there: it may be used later."""

    @property
    def is_certain(self) -> bool:
        """Whether that is gone by now."""
        return all(ref() is None for ref in self.left)

    @property
    def spot(self) -> Spot:
        """It in words."""
        because = (
            f"derivatives by these parameters were taken at {self.taken}, and nothing came of what "
            "was made of them: the loss uses the parameters as they were before"
        )
        advice = (
            "compute this loss with what was made of the derivatives (torch.func.functional_call "
            "takes parameters); if they are for nothing, do not take them"
        )
        return Spot("unused", self.place, because, advice)


def unused_derivatives(tape: Tape, parts: Sequence[Slice], consumed: set[int]) -> list[Unused]:
    """At the end of a step whose losses depend on `parts`; slots that went into updates are
    `consumed`."""
    carried = {tuple(t.shape) for t in tape.roots.values() if not t.is_leaf}
    used = {s for part in parts for e in part.entries for s in e.inputs} | consumed
    used |= {x.slot for x in tape.exits} | {part.loss for part in parts}
    found: dict[Place, Unused] = {}
    for at, entry in enumerate(tape.entries):
        inputs = _inputs(entry) if entry.name == GRAD else set[int]()
        if not inputs or not inputs <= _parameters(tape):
            continue
        made = _made_of(tape, at)
        place = _used_instead(tape, parts, at, inputs)
        taken = placed(entry.at)
        if carried.intersection([tape.shapes.get(s) for s in made]):
            continue  # values of the last step go on, and so may those of this one
        if made.isdisjoint(used) and place is not None and taken is not None:
            found.setdefault(place, Unused(place, taken, tape.refs(made)))
    return list(found.values())


def _inputs(entry: Entry) -> set[int]:
    """Slots of what a derivative is taken by."""
    asked: Any = entry.args[1]
    items = [asked] if isinstance(asked, Slot) else list(asked)
    return {s.number for s in items if isinstance(s, Slot)}


def _parameters(tape: Tape) -> set[int]:
    return {s for s, t in tape.roots.items() if t.is_leaf}


def _made_of(tape: Tape, at: int) -> set[int]:
    """Slots that the results of the entry `at` went into, and these results."""
    return forth(tape.entries[at + 1 :], tape.entries[at].outputs)


def _used_instead(tape: Tape, parts: Sequence[Slice], at: int, roots: set[int]) -> Place | None:
    """The line of a loss's own function that used these parameters after the derivative was taken;
    that of the loss if none did so there. None if no loss used them."""
    for part in parts:
        mine = {*part.entries}
        later = [e for e in tape.entries[at + 1 :] if e in mine]
        reads = [e for e in later if roots.intersection(e.inputs)]
        if not reads:
            continue
        lines = [e for e in later if e.at is not None]
        code = lines[-1].at[0] if lines and lines[-1].at is not None else None
        own = [e for e in lines if e.at is not None and e.at[0] is code]
        return placed(next((e for e in own if e in reads), own[0]).at) if own else None
    return None


def unread_values(tape: Tape, parts: Sequence[Slice], consumed: set[int]) -> Iterator[Spot]:
    """Values with a graph that are given to a name which nothing reads."""
    used = {s for e in tape.entries for s in e.inputs} | {x.slot for x in tape.exits} | consumed
    used |= {part.loss for part in parts}
    trained = {e.at for part in parts for e in part.entries}
    codes = {at[0] for at in trained if at is not None}
    for entry in tape.entries:
        if not entry.is_live or not used.isdisjoint(entry.outputs) or len(entry.outputs) > 1:
            continue
        if entry.at is None or entry.at[0] not in codes or entry.name == GRAD:
            continue
        row = unused_value(entry.at)
        if row is not None and row.again is None:
            says = f"`{row.name}` is computed of parameters on this line, and nothing reads it"
            yield Spot("unused", row.place, says, row.advice)
