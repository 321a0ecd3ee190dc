"""Opposed: a step that takes the gradient of a loss that works against its own.

Two optimizers, two losses, and the first loss reaches the parameters of both, as a discriminator's
does that is given samples with their graph. What it leaves in the other one's gradients must be
reset before the other loss runs back. That it was meant would show in two ways: several losses of
one network are added up for each optimizer that they reach, and do not cancel. Here the second
loss's gradients of the first optimizer are dropped, and the two gradients point against each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Pass, Trainer
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import finding
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


@dataclass(frozen=True, eq=False)
class _Foreign:
    """What was in an optimizer's gradients when another one had stepped with all that made it."""

    other: Trainer
    params: Sequence[Any]
    copies: Sequence[Any]
    norm: float


@dataclass(eq=False)
class _Row:
    """What the steps of one optimizer have taken."""

    trainer: Trainer
    foreign: _Foreign | None = None
    taken: list[_Taken] = field(default_factory=list[_Taken])


@final
class Opposed(Part):
    """Finds `not_reset` between two losses that work against each other."""

    title = "gradients of opposed losses"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[int, _Row] = {}
        self._open: list[_Taken] = []

    def listens(self) -> Handlers:
        """Steps, resets, and what changes gradients besides."""
        return {
            events.BackwardBegins: self._forget_reset,
            events.Zeroed: self._forget_reset,
            events.Clipped: self._changed,
            events.Unscaled: self._changed,
            events.StepBegins: self._steps,
        }

    def _of(self, trainer: Trainer) -> _Row:
        return self._rows.setdefault(id(trainer.optimizer), _Row(trainer))

    def _forget_reset(self, _: Any) -> None:
        for row in self._rows.values():
            if not row.trainer.held:
                row.foreign = None

    def _changed(self, e: events.Clipped | events.Unscaled) -> None:
        """Gradients are multiplied: they cannot be compared with those of before."""
        for row in self._rows.values():
            row.foreign = None

    def _steps(self, e: events.StepBegins) -> None:
        history = self._bus.history
        trainer = history.of(e)
        if e.closure or len(history.trainers) < 2:
            return
        row = self._of(trainer)
        self._settle(row)
        if row.foreign is not None:
            self._compare(row, row.foreign)
        for other in history.trainers.values():
            if other is not trainer and other.held:
                self._note(trainer, other)

    def _note(self, trainer: Trainer, other: Trainer) -> None:
        """One steps: are all the gradients that the other has by now of losses of the first's?"""
        mine, its = id(trainer.optimizer), id(other.optimizer)
        if all(mine in one.used_by and its not in one.used_by for one in other.held):
            params = [p for p in other.params if p.grad is not None]
            grads, engine = other.gradients(), other.engine
            copies, norm = engine.copies(grads), _length(engine.norms(grads))
            self._of(other).foreign = _Foreign(trainer, params, copies, norm)

    def _settle(self, row: _Row) -> None:
        """Whether this optimizer uses what another one's own loss has made for it."""
        for taken in [t for t in self._open if t.other is row.trainer]:
            taken.dropped = not any(one in row.trainer.held for one in taken.own)
            self._open.remove(taken)

    def _compare(self, row: _Row, was: _Foreign) -> None:
        """What has come to the foreign gradients since then, and how the two go together."""
        row.foreign = None
        held, engine, its = row.trainer.held, row.trainer.engine, id(was.other.optimizer)
        foreign = [one for one in held if its in one.used_by]
        own = [one for one in held if its not in one.used_by]
        reach = all(one in was.other.held for one in own)
        if not (own and reach and foreign) or any(p.grad is None for p in was.params):
            return
        now = [p.grad for p in was.params]
        whole, added = _length(engine.norms(now)), _length(engine.moved(now, was.copies))
        if was.norm and added and math.isfinite(whole + was.norm + added):
            cosine = (whole**2 - was.norm**2 - added**2) / (2 * was.norm * added)
            norms, steps = (was.norm, added), row.trainer.steps
            taken = _Taken(steps, was.other, foreign[-1].place, own, norms, cosine)
            row.taken.append(taken)
            self._open.append(taken)

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each optimizer whose steps were spoiled."""
        found: list[Finding] = []
        for row in self._rows.values():
            dropped = [taken for taken in row.taken if taken.dropped]
            mean = sum([taken.cosine for taken in dropped]) / max(len(dropped), 1)
            if dropped and all(t.dropped or t in self._open for t in row.taken) and mean < AGAINST:
                found.append(_finding(row, dropped))
        return found


def _length(norms: Sequence[float]) -> float:
    return math.hypot(*norms)


def _finding(row: _Row, dropped: Sequence[_Taken]) -> Finding:
    last = dropped[-1]
    kind, name = row.trainer.kind, row.trainer.name
    other = f"{last.other.kind} {last.other.name}".strip()
    own = last.own[0].place
    because = (
        f"step {last.step} of {kind} {name} takes the gradient of a loss that was {other}'s "
        f"(norm {last.norms[0]:.3g}, from {last.foreign}) together with that of its own "
        f"(norm {last.norms[1]:.3g}): they point against each other, cosine {last.cosine:.2f}"
    )
    return finding(
        "error" if len(dropped) > 1 else "warning",
        "not_reset",
        because,
        "reset the gradients before its own loss runs back: "
        f"{name or 'optimizer'}.zero_grad(); or give the other loss detached values",
        own,
        detail=f"in {len(dropped)} steps",
        evidence=[f"step {t.step}: cosine {t.cosine:.2f}" for t in dropped[:4]],
        edit=edits.inserted(own, name and f"{name}.zero_grad()"),
    )
