"""Order: things of a training loop that are right by themselves, and stand at the wrong place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts.ranges import Blame, steady
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import origins

PATIENCE = 8
"""Steps that a scaler may skip in a row: it starts at 2^16 and is halved each time."""


@dataclass(eq=False)
class _Scaler:
    """A gradient scaler, and how its steps went."""

    scaler: Any
    optimizer: Any = None
    steps: int = 0
    skipped: int = 0
    in_row: int = 0
    scale: float = 0.0
    first: float = 0.0
    place: Place | None = None
    clipped: Place | None = None
    clips: int = 0


@final
class Order(Part):
    """Finds `clip_scaled`, `scheduled_first` and `scaler_skips`."""

    title = "order of clipping, scaling and schedules"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._scalers: dict[int, _Scaler] = {}
        self._scaled: set[int] = set()  # scalers whose gradients wait to be unscaled
        self._unscaled: set[int] = set()  # parameters whose gradients were unscaled
        self._stepped: set[int] = set()
        self._early: dict[int, tuple[Any, Place | None]] = {}
        self._trained: set[int] = set()

    def listens(self) -> Handlers:
        """Scalers, clipping, schedules and steps."""
        return {
            events.Scaled: self._scale,
            events.Unscaled: self._unscale,
            events.ScalerStepped: self._scaler_step,
            events.Clipped: self._clip,
            events.Scheduled: self._schedule,
            events.StepEnds: self._step,
        }

    def _of(self, scaler: Any) -> _Scaler:
        return self._scalers.setdefault(id(scaler), _Scaler(scaler))

    def _scale(self, e: events.Scaled) -> None:
        self._scaled.add(id(e.scaler))
        row = self._of(e.scaler)
        row.first = row.first or e.scale

    def _unscale(self, e: events.Unscaled) -> None:
        self._unscaled |= {id(p) for p in e.engine.params(e.optimizer)}

    def _scaler_step(self, e: events.ScalerStepped) -> None:
        row = self._of(e.scaler)
        row.steps += 1
        row.skipped += e.skipped
        row.in_row = row.in_row + 1 if e.skipped else 0
        row.scale, row.place, row.optimizer = e.scale, e.place, e.optimizer
        self._scaled.discard(id(e.scaler))
        self._unscaled -= {id(p) for p in e.engine.params(e.optimizer)}
        self._stepped.add(id(e.optimizer))  # a skipped step is no reason to complain of an order

    def _clip(self, e: events.Clipped) -> None:
        held = [p for p in e.params if getattr(p, "grad", None) is not None]
        if (
            self._scaled
            and held
            and math.isfinite(e.bound)
            and not any(id(p) in self._unscaled for p in held)
        ):
            for row in [r for r in self._scalers.values() if id(r.scaler) in self._scaled]:
                row.clips += 1
                row.clipped = e.place

    def _schedule(self, e: events.Scheduled) -> None:
        if e.optimizer is not None and id(e.optimizer) not in self._stepped:
            self._early.setdefault(id(e.optimizer), (e.scheduler, e.place))

    def _step(self, e: events.StepEnds) -> None:
        self._stepped.add(id(e.optimizer))
        if id(e.optimizer) in self._early:
            self._trained.add(id(e.optimizer))

    def _by_optimizer(self) -> list[list[_Scaler]]:
        """Scalers that were asked for a step, those of one optimizer together."""
        found: dict[int, list[_Scaler]] = {}
        for row in [row for row in self._scalers.values() if row.steps]:
            found.setdefault(id(row.optimizer), []).append(row)
        return list(found.values())

    # --- findings

    def found(self, ledger: Ledger) -> list[Finding]:
        """What stands in the wrong order, and scalers that do not come through."""
        found = [_clipped(row) for row in self._scalers.values() if row.clips]
        stuck = [row for row in self._scalers.values() if row.in_row >= PATIENCE]
        blames = self._bus.blames if len(self._scalers) == 1 else []
        for row in stuck:
            blame = steady(blames, row.in_row, row.scale)
            found.append(_skips(row) if blame is None else _spoilt(row, blame))
        found += [_fresh(rows) for rows in self._by_optimizer() if _are_fresh(rows)]
        found += [
            _early(schedule, place)
            for key, (schedule, place) in self._early.items()
            if key in self._trained
        ]
        return found


def _are_fresh(rows: Sequence[_Scaler]) -> bool:
    """Whether each scaler of an optimizer has lived for one step, and could not make it."""
    return len(rows) > 1 and all(row.steps == row.skipped == 1 for row in rows)


def _fresh(rows: Sequence[_Scaler]) -> Finding:
    return finding(
        "warning",
        "scaler_skips",
        f"{len(rows)} steps in a row were dropped, because gradients were not finite, each by a "
        f"gradient scaler of its own that began at {rows[-1].first:g}: what one has learnt of the "
        "scale, the next one does not know",
        "make one scaler, before the loop, and use it in every step",
        rows[-1].place,
    )


def _clipped(row: _Scaler) -> Finding:
    return finding(
        "error",
        "clip_scaled",
        f"gradients were clipped {row.clips} times while they were still multiplied by the "
        f"scaler's {row.first:g}: the bound that was meant is {row.first:g} times smaller than "
        "what the gradients are compared with",
        "scaler.unscale_(optimizer) in front of the clipping",
        row.clipped,
    )


def _skips(row: _Scaler) -> Finding:
    again = origins.rescaled(row.place)
    if again is not None:
        return finding(
            "warning",
            "scaler_skips",
            f"{row.in_row} steps in a row were dropped, because gradients were not finite; the "
            f"scale, {row.scale:g}, is set anew each time, so that it never comes down",
            "scaler.update() without a scale of your own",
            again,
        )
    own = origins.scale(row.place)
    if own is not None:
        return finding(
            "warning",
            "scaler_skips",
            f"{row.in_row} steps in a row were dropped, because gradients were not finite; the "
            f"scale began at {row.first:g} and is {row.scale:g} by now",
            "leave init_scale (65536) and backoff_factor (0.5) as they are by default",
            own,
        )
    return finding(
        "warning",
        "scaler_skips",
        f"{row.in_row} steps in a row were dropped, because gradients were not finite; the scale "
        f"went from {row.first:g} to {row.scale:g} and that did not help",
        "look for what makes the infinity: an operation outside of what float16 can hold (6.5e4), "
        "or a division by a number near 0; run that part in float32 or bfloat16",
        row.place,
    )


def _spoilt(row: _Scaler, blame: Blame) -> Finding:
    kind = "value" if blame.phase == "forward" else "gradient"
    return finding(
        "warning",
        "scaler_skips",
        f"{row.in_row} steps in a row were dropped, because gradients were not finite; in each of "
        f"them the first {kind} that is not was made by {blame.op} in the {blame.phase} pass, "
        f"whatever the scale: {blame.made}",
        f"keep the arguments of {blame.op} away from where it has no finite value: clamp them "
        "before it, for a `where` behind it hides the value only, and lets NaN through backwards",
        blame.place,
        subject=blame.op,
        kind="op",
    )


def _early(schedule: Any, place: Place | None) -> Finding:
    return finding(
        "warning",
        "scheduled_first",
        f"{type(schedule).__name__}.step() ran before the first optimizer.step(): the first "
        "learning rate of the schedule is never used",
        "optimizer.step() first, scheduler.step() after it",
        place,
    )
