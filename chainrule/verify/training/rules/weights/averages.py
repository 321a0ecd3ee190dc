"""Averages: a model that follows a trained one, d of it and 1 - d of itself in each step.

It is to be smoother than what it follows, so d is small. Where the two shares are exchanged it is
nearly the model itself, as a constant d near 1 in several steps shows. A d of 1 is a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Trainer
from chainrule.verify.training.facts.values import are_few, flat
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row

_ELEMENTS = 1_000_000
"""Elements of parameters that are copied."""
_STEPS = 8
"""Steps that are looked at."""
_LEAST = 3
"""In so many of them the share must be the same."""
_NEARLY_ALL = 0.85
"""A share of the other model from which on little is left of an average."""
_EXACT = 1e-4


@dataclass(eq=False)
class _Follower:
    """A model that no optimizer has, of the shapes of one that an optimizer has."""

    trainer: Trainer
    name: str
    before: Array
    shares: list[float] = field(default_factory=list[float])
    """Of the trained model, in the steps in which it moved."""
    odd: bool = False
    """Whether it moved in another way."""

    def move(self, now: Array, trained: Array) -> None:
        """Note how it has moved."""
        way, moved = trained - self.before, now - self.before
        self.before = now
        size = float(way @ way)
        if not size or not moved.any():
            return
        share = float(moved @ way) / size
        self.odd |= float(np.linalg.norm(moved - share * way)) > _EXACT * np.sqrt(size)
        self.shares.append(share)


class _Average(NamedTuple):
    """An average that keeps nearly nothing of itself."""

    name: str
    share: float
    left: float
    steps: int
    place: Place | None


@final
class Averages(Part):
    """Finds averages that are `swapped`."""

    title = "averages of models"
    rows = (
        Row(
            "swapped",
            lambda f: f.swapped(),
            "in each of {steps} steps {name} took {share:.4g} of the trained model and kept "
            "{left:.4g} of itself: it is the model of the step before, nearly, and no average",
            "exchange the two: average = {share:.4g} * average + {left:.4g} * model",
            subject="{name}",
            kind="model",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._models: dict[int, Any] = {}
        """Those that were called from outside, as an average is: without a graph."""
        self._followers: dict[tuple[int, int], _Follower] = {}
        self._steps = 0

    @on(op_events.Entered)
    def _called(self, e: op_events.Entered) -> None:
        if not e.depth and not e.recording:
            self._models.setdefault(id(e.module), e.module)

    @on(events.StepBegins)
    def _look(self, e: events.StepBegins) -> None:
        names, trainer = self.history.names, self.history.of(e)
        self._steps += 1
        if e.closure or self._steps > _STEPS or not are_few(e.params, _ELEMENTS):
            return
        shapes = [tuple(p.shape) for p in e.params]
        for key, model in self._models.items():
            params = list(model.parameters())
            own = trainer.ids.intersection(map(id, params))
            if own or [tuple(p.shape) for p in params] != shapes:
                continue
            now, trained = (flat([e.engine.array(p) for p in ps]) for ps in (params, e.params))
            row = _Follower(trainer, names.module(model), now)
            self._followers.setdefault((id(e.optimizer), key), row).move(now, trained)

    def swapped(self) -> Iterator[_Average]:
        """Those whose share of the trained model was the same, and large."""
        for row in self._followers.values():
            share = float(np.median(row.shares)) if len(row.shares) >= _LEAST else 0.0
            same = all(abs(s - share) < 1e-3 for s in row.shares)
            if not row.odd and same and _NEARLY_ALL <= share < 1 - 1e-3:
                place = row.trainer.stepped_at
                yield _Average(row.name, share, 1 - share, len(row.shares), place)
