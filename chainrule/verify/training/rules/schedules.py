"""Schedules of learning rates whose length is in another unit than their steps: in epochs, where
every batch is one, or in batches, where every epoch is."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.loops import Loop, loops_here
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import edits
from chainrule.verify.trees import tree_of_file

_GONE = 1e-6
"""A rate that is smaller than this, relative, trains no more."""
_LEFT = 1e-4
"""One that is larger than this still does."""
_BEYOND = 8
"""Steps behind its end for which a schedule is asked whether it has come to an end."""
_LONGEST = 100_000
"""Steps for which one is asked."""
_EARLY = 8
"""Steps of an optimizer in one epoch, after which a schedule per batch has begun."""
_SHARE = 3
"""The last change of a schedule is not in the first of so many parts of the training."""


@dataclass(eq=False)
class _Seen:
    """A schedule that takes steps at one line."""

    schedule: Any
    place: Place | None
    loops: Sequence[Loop]
    steps: int = 0
    """Of its optimizer, since its last one."""
    each: list[int] = field(default_factory=list[int])
    """For each of its steps: those of its optimizer before it."""


@dataclass(eq=False)
class _Waiting:
    """A schedule that has taken no step yet."""

    schedule: Any
    optimizer: Any
    steps: int = 0
    """Of its optimizer."""
    loops: Sequence[Loop] = ()
    """That these are in."""
    names: Set[str] = frozenset()
    """What it is called there."""


class _Unit(NamedTuple):
    """One whose steps and length do not fit."""

    kind: str
    place: Place | None
    per_batch: bool
    length: str
    epochs: int
    batches: int


def _first_int(schedule: Any, *names: str) -> tuple[str, int] | None:
    found = [(n, getattr(schedule, n, None)) for n in names]
    return next(((n, x) for n, x in found if isinstance(x, int) and x > 1), None)


def _length(schedule: Any, most: int = 0) -> tuple[str, int] | None:
    """After how many steps a schedule has come to its end, and what it calls that; of one that is
    a function, the last step at which it changes, if that is one of the first `most`."""
    known = _first_int(schedule, "T_max", "total_iters", "total_steps")
    functions = getattr(schedule, "lr_lambdas", None)
    if known is not None or not functions or most <= 0:
        return known
    try:
        rates = [[f(n) for f in functions] for n in range(most + _BEYOND)]
    except Exception:  # what the user's functions do at other steps is theirs
        return None
    last = max([n for n in range(1, len(rates)) if rates[n] != rates[n - 1]], default=0)
    return ("last change", last) if 1 < last <= most else None


def _factor(schedule: Any, steps: int) -> float | None:
    """What is left of the rate after so many steps, of a schedule that makes it smaller and
    smaller; None of others."""
    gamma = getattr(schedule, "gamma", None)
    if not isinstance(gamma, float) or not 0 < gamma < 1:
        return None
    every = getattr(schedule, "step_size", 1)
    marks = getattr(schedule, "milestones", None)
    drops = steps // every if marks is None else sum(m <= steps for m in marks.elements())
    return math.exp(drops * math.log(gamma))


def _is_short(schedule: Any, epochs: int, batches: int) -> bool:
    """Whether a schedule that is stepped per batch was made for steps per epoch."""
    length = _length(schedule, 2 * epochs)
    if length is not None:
        return length[1] in (epochs, epochs - 1)
    now, meant = (_factor(schedule, n) for n in (epochs * batches, epochs))
    if now is None or meant is None:
        return False
    marks = getattr(schedule, "milestones", None)
    if marks is not None:
        last = max(marks, default=0)
        return epochs > last > epochs // _SHARE and batches > _SHARE and epochs > _SHARE
    return now < _GONE and meant > _LEFT


def _is_long(schedule: Any, epochs: int, batches: int) -> bool:
    """The other way round."""
    every = epochs * batches
    length = _length(schedule, every + 1) if every <= _LONGEST else None
    return length is not None and min(epochs, batches) > 1 and every - 1 <= length[1] <= every


@final
class Schedules(Part):
    """Finds `schedule_unit`."""

    title = "schedules of learning rates"
    rows = (
        Row(
            "schedule_unit",
            lambda f: f.units(),
            lambda c: (
                f"{c.kind} takes a step for every {'batch' if c.per_batch else 'epoch'}, and "
                f"{c.length}: that fits {c.epochs} epochs"
                + ("" if c.per_batch else f" of {c.batches} batches")
                + (", not the batches in them" if c.per_batch else ", if every batch were a step")
            ),
            lambda c: (
                "its step at the end of each epoch, behind the loop over batches"
                if c.per_batch
                else "its step behind that of the optimizer, in the loop over batches"
            ),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._seen: dict[int, _Seen] = {}
        self._waiting: dict[int, _Waiting] = {}

    def seen(self) -> Sequence[str]:
        """How many there were."""
        return [f"{len(self._seen)} schedules"] if self._seen else []

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        for row in self._seen.values():
            row.steps += getattr(row.schedule, "optimizer", None) is e.optimizer
        for row in self._waiting.values():
            row.steps += row.optimizer is e.optimizer
            if row.steps == _EARLY and not row.loops:
                row.loops, row.names = loops_here(), edits.names_of(row.schedule)

    @on(events.ScheduleBuilt)
    def _built(self, e: events.ScheduleBuilt) -> None:
        self._waiting[id(e.scheduler)] = _Waiting(e.scheduler, e.optimizer)

    @on(events.Scheduled)
    def _scheduled(self, e: events.Scheduled) -> None:
        row = self._seen.get(id(e.scheduler))
        if row is None:
            row = self._seen[id(e.scheduler)] = _Seen(e.scheduler, e.place, loops_here())
            made = self._waiting.get(id(e.scheduler))
            row.steps = made.steps if made is not None else 0
        if row.steps or row.each:
            row.each.append(row.steps)
        row.steps = 0
        others = self._waiting.items()  # of one optimizer, one may wait for another's end
        self._waiting = {k: w for k, w in others if w.optimizer is not e.optimizer}

    def units(self) -> list[_Unit]:
        """Those whose length is in another unit."""
        judged = [_judged(row) for row in self._seen.values()]
        return [u for u in (*judged, *map(_awaited, self._waiting.values())) if u is not None]


def _judged(row: _Seen) -> _Unit | None:
    if not row.each or not row.loops:
        return None
    kind, inner = type(row.schedule).__name__, row.loops[0]
    most = max(row.each)
    if most <= 1 and len(row.loops) > 1:
        epochs, batches = row.loops[1].count, inner.count or len(row.each)
        if epochs is not None and batches > 1 and _is_short(row.schedule, epochs, batches):
            return _Unit(kind, row.place, True, _said(row.schedule, epochs), epochs, batches)
    epochs = inner.count if min(row.each) == most > 1 else None
    if epochs is not None and _is_long(row.schedule, epochs, most):
        said = _said(row.schedule, epochs * most)
        return _Unit(kind, row.place, False, said, epochs, most)
    return None


def _awaited(row: _Waiting) -> _Unit | None:
    """One that is as long as there are batches, and takes its first step behind the loop over
    them, which is not over yet."""
    if len(row.loops) < 2:
        return None
    inner, outer = row.loops[:2]
    at, epochs, batches = _step_line(row.names, outer), outer.count or 0, inner.count or 0
    if at is None or inner.has(at) or not _is_long(row.schedule, epochs, batches):
        return None
    said = _said(row.schedule, epochs * batches)
    return _Unit(type(row.schedule).__name__, at, False, said, epochs, batches)


def _step_line(names: Set[str], loop: Loop) -> Place | None:
    """The only line of a loop on which what is called so takes a step."""
    calls = [n for n in ast.walk(tree_of_file(loop.file)) if isinstance(n, ast.Call)]
    found = [n for n in calls if ast.unparse(n.func) in {f"{name}.step" for name in names}]
    places = [at for n in found if loop.has(at := Place(loop.file, n.lineno))]
    return places[0] if len(places) == 1 else None


def _said(schedule: Any, most: int) -> str:
    """Its length, in its own words."""
    length = _length(schedule, 2 * most)
    if length is not None:
        return f"its {length[0]} is {length[1]}"
    marks = getattr(schedule, "milestones", None)
    if marks is not None:
        return f"its milestones are {sorted(marks)}"
    return f"multiplies the rate by {schedule.gamma} every {getattr(schedule, 'step_size', 1)}"
