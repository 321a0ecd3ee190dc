"""Scales: gradients that are clipped while a scaler's factor is in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row


@dataclass(eq=False)
class _Scaler:
    """A gradient scaler, and what was clipped while its factor was in the gradients."""

    first: float = 0.0
    clipped: Place | None = None
    clips: int = 0
    waits: bool = False
    """Whether its gradients wait to be unscaled."""


@final
class Scales(Part):
    """Finds `clip_scaled`."""

    title = "order of clipping and scaling"
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
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.scalers: dict[int, _Scaler] = {}
        self._unscaled: set[int] = set()  # parameters whose gradients were unscaled

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
        self._of(e.scaler).waits = False
        self._unscaled -= e.ids

    @on(events.Clipped)
    def _clip(self, e: events.Clipped) -> None:
        held = [p for p in e.params if getattr(p, "grad", None) is not None]
        if held and math.isfinite(e.bound) and self._unscaled.isdisjoint(map(id, held)):
            for row in [row for row in self.scalers.values() if row.waits]:
                row.clips, row.clipped = row.clips + 1, e.place
