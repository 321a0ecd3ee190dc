"""Clipping where it bounds nothing, or not all: before a backward pass has made gradients, between
two backward passes for one step, or after the step that has used them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training import edits, events
from chainrule.verify.training.bus import Bus, Handlers, Part
from chainrule.verify.training.said import looked, said

_TIMES = 2
"""So often it must have been in vain."""


@dataclass(eq=False)
class _Clip:
    """A call that bounds gradients of parameters, by their ids."""

    params: frozenset[int]
    place: Place | None
    when: Literal["early", "late", "in time"]
    passed: bool = False
    """Whether a backward pass has changed the gradients since."""
    added_at: Place | None = None
    """Where that was."""


@dataclass(eq=False)
class _Row:
    """What is known of a line."""

    when: str
    added_at: Place | None
    count: int = 0


@final
class Clipping(Part):
    """Finds `clip_idle`."""

    title = "clipping of gradients"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._open: list[_Clip] = []
        self._spent: set[int] = set()  # parameters whose gradients a step has used
        self._clips = 0
        self._rows: dict[Place, _Row] = {}

    def listens(self) -> Handlers:
        """Clipping, and what comes before and after it."""
        return {
            events.Clipped: self._clipped,
            events.BackwardEnds: self._ended,
            events.StepEnds: self._stepped,
            events.Zeroed: self._zeroed,
        }

    def _clipped(self, e: events.Clipped) -> None:
        self._clips += 1
        ids = frozenset(map(id, e.params))
        held = [g for p in e.params if (g := getattr(p, "grad", None)) is not None]
        if not any(e.engine.norms(held)):
            self._open.append(_Clip(ids, e.place, "early"))
        else:
            self._open.append(_Clip(ids, e.place, "late" if ids <= self._spent else "in time"))

    def _ended(self, e: events.BackwardEnds) -> None:
        self._spent -= e.touched
        for clip in self._open:
            if clip.params & e.touched:
                clip.passed, clip.added_at = True, e.begin.place

    def _stepped(self, e: events.StepEnds) -> None:
        own = {id(p) for p in e.params}
        self._spent |= own
        mine = [clip for clip in self._open if clip.params & own]
        in_time = [clip for clip in mine if clip.when == "in time"]
        if not in_time:
            self._in_vain([c for c in mine if c.when == "early" and c.passed])
        elif len(in_time) == 1:
            self._in_vain([c for c in in_time if c.passed], "between")
        self._open = [clip for clip in self._open if clip not in mine]

    def _zeroed(self, e: events.Zeroed) -> None:
        own = {id(p) for p in e.params}
        late = [clip for clip in self._open if clip.when == "late" and clip.params & own]
        self._in_vain(late)
        self._open = [clip for clip in self._open if clip not in late]

    def _in_vain(self, clips: Sequence[_Clip], when: str = "") -> None:
        for clip in clips:
            if clip.place is not None:
                row = _Row(when or clip.when, clip.added_at)
                self._rows.setdefault(clip.place, row).count += 1

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each line."""
        if self._clips:
            looked(ledger, self.title, f"{self._clips} calls")
        return [_idle(place, row) for place, row in self._rows.items() if row.count >= _TIMES]


_WHY = {
    "early": "nothing was bounded by this, since there were no gradients yet: the backward pass "
    "made them afterwards",
    "late": "nothing was bounded by this, since the step had used the gradients already",
    "between": "a backward pass after this has added to the gradients that it had bounded",
}


def _idle(place: Place, row: _Row) -> Finding:
    return said(
        "warning",
        "clip_idle",
        f"in {row.count} steps {_WHY[row.when]}",
        "clip between the last backward pass and the step",
        place,
        edit=edits.moved_behind(place, row.added_at) if row.when == "between" else None,
    )
