"""Averages: a model that follows a trained one, d of it and 1 - d of itself in each step.

It is to be smoother than what it follows, so d is small. Where the two shares are exchanged it is
nearly the model itself, as a constant d near 1 in several steps shows. A d of 1 is a copy. Running
statistics are no parameters: one that follows these alone is evaluated with those it began with.
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
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.user_frames import place

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
    initial: bool = True
    """Whether its running statistics are those that layers begin with."""

    @property
    def share(self) -> float:
        """Of the trained model, if that was the same in all of several steps; else 0."""
        share = float(np.median(self.shares)) if len(self.shares) >= _LEAST else 0.0
        return 0.0 if self.odd or any(abs(s - share) >= 1e-3 for s in self.shares) else share

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
    """An average that is not what it should be."""

    name: str
    share: float
    left: float
    steps: int
    place: Place | None


@final
class Averages(Part):
    """Finds averages that are `swapped`, and those whose statistics were `left_behind`."""

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
        Row(
            "left_behind",
            lambda f: f.left_behind(),
            "{name} has followed the parameters of the trained model in {steps} steps; its batch "
            "norm still has mean 0 and variance 1, with which it began, and was evaluated so",
            "copy the buffers as well: for b, c in zip(average.buffers(), model.buffers()): "
            "b.copy_(c)",
            subject="{name}",
            kind="model",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._models: dict[int, Any] = {}
        """Those that were called from outside, as an average is: without a graph."""
        self._behind = set[int]()
        """Ids of those that were in eval mode then, with the statistics that layers begin with,
        when others had been trained with others."""
        self._followers: dict[tuple[int, int], _Follower] = {}
        self._written: dict[int, Place] = {}
        """Where the program has changed what lies at an address."""

    @on(op_events.Entered)
    def _called(self, e: op_events.Entered) -> None:
        if e.depth or e.recording or id(e.module) in self._models:
            return
        self._models[id(e.module)] = e.module
        trained = [root for _, root in self.history.names.roots.values() if root is not e.module]
        moved = any(_is_initial(e.engine, root) is False for root in trained)
        if moved and not e.module.training and _is_initial(e.engine, e.module):
            self._behind.add(id(e.module))

    @on(op_events.Written)
    def _changed(self, e: op_events.Written) -> None:
        at = place() if self._models else None
        if at is not None:
            self._written.setdefault(e.address, at)

    @on(events.StepBegins)
    def _look(self, e: events.StepBegins) -> None:
        """Note how the models have moved that may follow what this optimizer trains."""
        names, trainer = self.history.names, self.history.of(e)
        if e.closure or not self._models or not are_few(e.params, _ELEMENTS):
            return
        shapes = [tuple(p.shape) for p in e.params]
        for key, model in self._models.items():
            row, params = self._followers.get((id(e.optimizer), key)), list(model.parameters())
            own = trainer.ids.intersection(map(id, params))
            done = row is not None and len(row.shares) >= _STEPS
            if own or done or [tuple(p.shape) for p in params] != shapes:
                continue
            now, trained = (flat([e.engine.array(p) for p in ps]) for ps in (params, e.params))
            row = _Follower(trainer, names.module(model), now) if row is None else row
            self._followers[id(e.optimizer), key] = row
            row.move(now, trained)
            row.initial = _is_initial(e.engine, model) is True

    def swapped(self) -> Iterator[_Average]:
        """Those whose share of the trained model was the same, and large."""
        for (_, key), row in self._followers.items():
            if _NEARLY_ALL <= row.share < 1 - 1e-3:
                yield self._average(row, key)

    def left_behind(self) -> Iterator[_Average]:
        """Those that were evaluated with the statistics that they began with, and still have."""
        for (_, key), row in self._followers.items():
            if row.share and row.initial and key in self._behind:
                yield self._average(row, key)

    def _average(self, row: _Follower, key: int) -> _Average:
        params = [p for p in self._models[key].parameters() if hasattr(p, "data_ptr")]
        written = [at for p in params if (at := self._written.get(p.data_ptr())) is not None]
        at = written[0] if written else row.trainer.stepped_at
        return _Average(row.name, row.share, 1 - row.share, len(row.shares), at)


def _is_initial(engine: Engine, model: Any) -> bool | None:
    """Whether the running statistics of a model are those that layers begin with; None if it has
    none."""
    layers = [m for _, m in engine.modules(model) if getattr(m, "running_var", None) is not None]
    kept = [(engine.array(m.running_mean), engine.array(m.running_var)) for m in layers]
    return all((a == 0).all() and (b == 1).all() for a, b in kept) if kept else None
