"""Scales: gradients that are clipped while a scaler's factor is in them, scalers that skip every
step, schedules that step first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.values import Blame, steady
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import origins

PATIENCE = 8
"""Steps that a scaler may skip in a row: it starts at 2^16 and is halved each time."""


@dataclass(eq=False)
class _Scaler:
    """A gradient scaler, and how its steps went."""

    optimizer: Any = None
    steps: int = 0
    skipped: int = 0
    in_row: int = 0
    scale: float = 0.0
    first: float = 0.0
    place: Place | None = None
    clipped: Place | None = None
    clips: int = 0
    waits: bool = False
    """Whether its gradients wait to be unscaled."""
    blame: Blame | None = None
    """The op that made the gradients of all steps bad that it skips."""
    others: int = 1
    """Scalers of the same optimizer."""


class _Early(NamedTuple):
    """A schedule that stepped before its optimizer."""

    scheduler: Any
    place: Place | None


class _Skip(NamedTuple):
    """What a scaler that comes through no more lacks."""

    words: str
    fix: str
    place: Place | None
    subject: str = "training loop"


_DROPPED = "{} steps in a row were dropped, because gradients were not finite"


def _stuck(row: _Scaler) -> _Skip:
    """Why a scaler skips step after step: an op, a scale that is set anew, how it began."""
    dropped, blame = _DROPPED.format(row.in_row), row.blame
    if blame is not None:
        kind = "value" if blame.phase == "forward" else "gradient"
        words = (
            f"{dropped}; in each of them the first {kind} that is not was made by {blame.op} in "
            f"the {blame.phase} pass, whatever the scale: {blame.made}"
        )
        fix = (
            f"keep the arguments of {blame.op} away from where it has no finite value: clamp them "
            "before it, for a `where` behind it hides the value only, and lets NaN through "
            "backwards"
        )
        return _Skip(words, fix, blame.place, blame.op)
    if (again := origins.rescale_line(row.place)) is not None:
        words = f"{dropped}; the scale, {row.scale:g}, is set anew each time, so that it never "
        return _Skip(f"{words}comes down", "scaler.update() without a scale of your own", again)
    if (own := origins.scale(row.place)) is not None:
        words = f"{dropped}; the scale began at {row.first:g} and is {row.scale:g} by now"
        fix = "leave init_scale (65536) and backoff_factor (0.5) as they are by default"
        return _Skip(words, fix, own)
    words = f"{dropped}; the scale went from {row.first:g} to {row.scale:g} and that did not help"
    fix = (
        "look for what makes the infinity: an operation outside of what float16 can hold (6.5e4), "
        "or a division by a number near 0; run that part in float32 or bfloat16"
    )
    return _Skip(words, fix, row.place)


@final
class Scales(Part):
    """Finds `clip_scaled`, `scheduled_first` and `scaler_skips`."""

    title = "order of clipping, scaling and schedules"
    rows = (
        Row(
            "clip_scaled",
            lambda f: [row for row in f.scalers.values() if row.clips],
            "gradients were clipped {clips} times while they were still multiplied by the scaler's "
            "{first:g}: the bound that was meant is {first:g} times smaller than what the "
            "gradients are compared with",
            "scaler.unscale_(optimizer) in front of the clipping",
            "error",
            place=lambda row: row.clipped,
        ),
        *[
            Row(
                "scaler_skips", lambda f, by_op=by_op: f.stuck(by_op=by_op), "{words}", "{fix}",
                subject="{subject}", kind=kind,
            )
            for by_op, kind in ((False, "training"), (True, "op"))
        ],
        Row(
            "scaler_skips",
            lambda f: f.fresh(),
            "{others} steps in a row were dropped, because gradients were not finite, each by a "
            "gradient scaler of its own that began at {first:g}: what one has learnt of the scale, "
            "the next one does not know",
            "make one scaler, before the loop, and use it in every step",
        ),
        Row(
            "scheduled_first",
            lambda f: [row for key, row in f.early.items() if key in f.trained],
            lambda row: (
                f"{type(row.scheduler).__name__}.step() ran before the first optimizer.step(): the "
                "first learning rate of the schedule is never used"
            ),
            "optimizer.step() first, scheduler.step() after it",
        ),
    )  # fmt: skip

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.scalers: dict[int, _Scaler] = {}
        self.early: dict[int, _Early] = {}
        """By id of the optimizer."""
        self.trained: set[int] = set()
        self._unscaled: set[int] = set()  # parameters whose gradients were unscaled
        self._stepped: set[int] = set()

    def stuck(self, *, by_op: bool) -> Iterator[_Skip]:
        """Scalers that have skipped too many steps in a row, because of an op or not."""
        blames = self._bus.blames if len(self.scalers) == 1 else []
        for row in [row for row in self.scalers.values() if row.in_row >= PATIENCE]:
            row.blame = steady(blames, row.in_row, row.scale)
            if by_op == (row.blame is not None):
                yield _stuck(row)

    def fresh(self) -> Iterator[_Scaler]:
        """Of optimizers with several scalers that have lived for one step, and could not make it:
        the last one."""
        asked = [row for row in self.scalers.values() if row.steps]
        for key in dict.fromkeys([id(row.optimizer) for row in asked]):
            rows = [row for row in asked if id(row.optimizer) == key]
            if len(rows) > 1 and all(row.steps == row.skipped == 1 for row in rows):
                rows[-1].others = len(rows)
                yield rows[-1]

    def _of(self, scaler: Any) -> _Scaler:
        return self.scalers.setdefault(id(scaler), _Scaler())

    @on(events.Scaled)
    def _scale(self, e: events.Scaled) -> None:
        row = self._of(e.scaler)
        row.first, row.waits = row.first or e.scale, True

    @on(events.Unscaled)
    def _unscale(self, e: events.Unscaled) -> None:
        self._unscaled |= e.ids

    @on(events.ScalerStepped)
    def _scaler_step(self, e: events.ScalerStepped) -> None:
        row = self._of(e.scaler)
        row.steps += 1
        row.skipped += e.skipped
        row.in_row = row.in_row + 1 if e.skipped else 0
        row.scale, row.place, row.optimizer, row.waits = e.scale, e.place, e.optimizer, False
        self._unscaled -= e.ids
        self._stepped.add(id(e.optimizer))  # a skipped step is no reason to complain of an order

    @on(events.Clipped)
    def _clip(self, e: events.Clipped) -> None:
        held = [p for p in e.params if getattr(p, "grad", None) is not None]
        if held and math.isfinite(e.bound) and self._unscaled.isdisjoint(map(id, held)):
            for row in [row for row in self.scalers.values() if row.waits]:
                row.clips, row.clipped = row.clips + 1, e.place

    @on(events.Scheduled)
    def _schedule(self, e: events.Scheduled) -> None:
        if e.optimizer is not None and id(e.optimizer) not in self._stepped:
            self.early.setdefault(id(e.optimizer), _Early(e.scheduler, e.place))

    @on(events.StepEnds)
    def _step(self, e: events.StepEnds) -> None:
        self._stepped.add(id(e.optimizer))
        if id(e.optimizer) in self.early:
            self.trained.add(id(e.optimizer))
