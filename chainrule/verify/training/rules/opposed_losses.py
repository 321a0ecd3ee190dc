"""Opposed: a step that takes the gradient of a loss that works against its own.

Two optimizers, two losses, and the first loss reaches the parameters of both, as a discriminator's
does that is given samples with their graph. What it leaves in the other one's gradients must be
reset before the other loss runs back. That it was meant would show in two ways: several losses of
one network are added up for each optimizer that they reach, and do not cancel. Here the second
loss's gradients of the first optimizer are dropped, and the two gradients point against each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Pass, Trainer
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import edits

AGAINST = -0.5
"""From this cosine on two gradients point against each other."""


@dataclass(eq=False)
class _Taken:
    """A step with gradients of a loss of its own, and of one that another optimizer has used."""

    step: int
    other: Trainer
    foreign: Place | None
    own: Sequence[Pass]
    norms: tuple[float, float]
    """Of the gradient of the other loss, and of its own."""
    cosine: float
    dropped: bool = False
    """Whether what its own loss made for the other optimizer was not used."""


class _Foreign(NamedTuple):
    """What was in an optimizer's gradients when another one had stepped with all that made it."""

    other: Trainer
    params: Sequence[Any]
    copies: Sequence[Any]
    norm: float


class _Spoiled(NamedTuple):
    """An optimizer whose steps have taken both."""

    trainer: Trainer
    dropped: Sequence[_Taken]
    mean: float
    """Of their cosines."""

    @property
    def last(self) -> _Taken:
        """The last such step."""
        return self.dropped[-1]

    @property
    def other(self) -> str:
        """Whose the other loss is."""
        return f"{self.last.other.kind} {self.last.other.name}".strip()


def _go_together(spoiled: _Spoiled) -> bool:
    """Whether the two gradients do not point against each other: losses of one network are added
    up for each optimizer that they reach."""
    return spoiled.mean >= AGAINST


@final
class Opposed(Part):
    """Finds `not_reset` between two losses that work against each other."""

    title = "gradients of opposed losses"
    rows = (
        Row(
            "not_reset",
            lambda f: f.spoiled(),
            "step {last.step} of {trainer.kind} {trainer.name} takes the gradient of a loss that "
            "was {other}'s (norm {last.norms[0]:.3g}, from {last.foreign}) together with that of "
            "its own (norm {last.norms[1]:.3g}): they point against each other, cosine "
            "{last.cosine:.2f}",
            lambda s: (
                "reset the gradients before its own loss runs back: "
                f"{s.trainer.name or 'optimizer'}.zero_grad(); or give the other loss detached "
                "values"
            ),
            lambda s: "error" if len(s.dropped) > 1 else "warning",
            (_go_together,),
            place=lambda s: s.last.own[0].place,
            detail=lambda s: f"in {len(s.dropped)} steps",
            evidence=lambda s: [f"step {t.step}: cosine {t.cosine:.2f}" for t in s.dropped[:4]],
            edit=lambda s: edits.insert_before(
                s.last.own[0].place, s.trainer.name and f"{s.trainer.name}.zero_grad()"
            ),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._foreign: dict[int, _Foreign] = {}
        self._taken: dict[int, list[_Taken]] = {}
        self._open: list[_Taken] = []

    def spoiled(self) -> Iterator[_Spoiled]:
        """Optimizers of whose steps all but open ones dropped the gradient of the other loss."""
        for key, taken in self._taken.items():
            dropped = [t for t in taken if t.dropped]
            if dropped and all(t.dropped or t in self._open for t in taken):
                mean = sum([t.cosine for t in dropped]) / len(dropped)
                yield _Spoiled(self.history.trainers[key], dropped, mean)

    @on(events.BackwardBegins, events.Zeroed)
    def _forget_reset(self, e: events.BackwardBegins | events.Zeroed) -> None:
        trainers = self.history.trainers
        gone = [k for k in self._foreign if not self.history.held(trainers[k].params)]
        for key in gone:
            del self._foreign[key]

    @on(events.Clipped, events.Unscaled)
    def _changed(self, e: events.Clipped | events.Unscaled) -> None:
        """Gradients are multiplied: they cannot be compared with those of before."""
        self._foreign.clear()

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        trainer, trainers = self.history.of(e), self.history.trainers
        if e.closure or len(trainers) < 2:
            return
        held = self.history.held(trainer.params)
        for taken in [t for t in self._open if t.other is trainer]:
            taken.dropped = not any(one in held for one in taken.own)
            self._open.remove(taken)
        foreign = self._foreign.pop(id(e.optimizer), None)
        if foreign is not None:
            self._compare(trainer, held, foreign)
        for other in trainers.values():
            if other is not trainer:
                self._note(trainer, other)

    def _note(self, trainer: Trainer, other: Trainer) -> None:
        """One steps: are all the gradients that the other has by now of losses of the first's?"""
        mine, its = id(trainer.optimizer), id(other.optimizer)
        held = self.history.held(other.params)
        if held and all(self._is_used(one, mine) and its not in one.used_by for one in held):
            params = [p for p in other.params if p.grad is not None]
            grads, engine = [p.grad for p in params], other.engine
            copies, norm = engine.copies(grads), math.hypot(*engine.norms(grads))
            self._foreign[its] = _Foreign(trainer, params, copies, norm)

    def _is_used(self, one: Pass, by: int) -> bool:
        """Whether the optimizer that steps now uses it, or has used it."""
        return by in one.used_by or bool(one.left & self.history.trainers[by].ids)

    def _compare(self, trainer: Trainer, held: Sequence[Pass], was: _Foreign) -> None:
        """What has come to the foreign gradients since then, and how the two go together."""
        engine, its = trainer.engine, id(was.other.optimizer)
        foreign = [one for one in held if its in one.used_by]
        own = [one for one in held if its not in one.used_by]
        reach = self.history.held(was.other.params)
        if not (own and foreign and all(one in reach for one in own)):
            return
        if any(p.grad is None for p in was.params):
            return
        now = [p.grad for p in was.params]
        whole = math.hypot(*engine.norms(now))
        added = math.hypot(*engine.moved(now, was.copies))
        if was.norm and added and math.isfinite(whole + was.norm + added):
            cosine = (whole**2 - was.norm**2 - added**2) / (2 * was.norm * added)
            norms = was.norm, added
            taken = _Taken(trainer.steps, was.other, foreign[-1].place, own, norms, cosine)
            self._taken.setdefault(id(trainer.optimizer), []).append(taken)
            self._open.append(taken)
