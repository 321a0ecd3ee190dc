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
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import edits

AGAINST = -0.5
"""From this cosine on two gradients point against each other."""


@dataclass(eq=False)
class _Pass:
    """A backward pass, and the optimizers that have stepped with what it made."""

    serial: int
    place: Place | None
    used_by: set[int] = field(default_factory=set[int])


@dataclass(eq=False)
class _Taken:
    """A step with gradients of a loss of its own, and of one that another optimizer has used."""

    step: int
    other: _Optimizer
    foreign: Place | None
    own: Sequence[_Pass]
    norms: tuple[float, float]
    """Of the gradient of the other loss, and of its own."""
    cosine: float
    dropped: bool = False
    """Whether what its own loss made for the other optimizer was not used."""


@dataclass(frozen=True, eq=False)
class _Foreign:
    """What was in an optimizer's gradients when another one had stepped with all that made it."""

    other: _Optimizer
    params: Sequence[Any]
    copies: Sequence[Any]
    norm: float


@dataclass(eq=False)
class _Optimizer:
    """What is in the gradients of one optimizer."""

    optimizer: Any
    name: str = ""
    """What the program calls it."""
    steps: int = 0
    passes: list[_Pass] = field(default_factory=list[_Pass])
    """Backward passes that added to its gradients since they were reset."""
    foreign: _Foreign | None = None
    taken: list[_Taken] = field(default_factory=list[_Taken])


@final
class Opposed(Part):
    """Finds `not_reset` between two losses that work against each other."""

    title = "gradients of opposed losses"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[int, _Optimizer] = {}
        self._open: list[_Taken] = []

    def listens(self) -> Handlers:
        """Backward passes, resets and steps; and what changes gradients besides."""
        return {
            events.Built: self._built,
            events.BackwardBegins: self._begins,
            events.BackwardEnds: self._ends,
            events.Zeroed: self._zeroed,
            events.Clipped: self._changed,
            events.Unscaled: self._changed,
            events.StepBegins: self._steps,
        }

    def _built(self, e: events.Built) -> None:
        self._of(e.optimizer)

    def _of(self, optimizer: Any) -> _Optimizer:
        return self._rows.setdefault(id(optimizer), _Optimizer(optimizer))

    def _begins(self, e: events.BackwardBegins) -> None:
        """What was reset by hand is not told of."""
        for row in self._rows.values():
            if len(self._rows) > 1 and row.passes:
                grads = _grads(e.engine.params(row.optimizer))
                if not any(e.engine.norms(grads)):
                    _forget(row)

    def _ends(self, e: events.BackwardEnds) -> None:
        made = _Pass(e.begin.serial, e.begin.place)
        for row in self._rows.values():
            if any(id(p) in e.touched for p in e.begin.engine.params(row.optimizer)):
                row.passes.append(made)

    def _zeroed(self, e: events.Zeroed) -> None:
        dropped = {id(p) for p in e.params}
        for row in self._rows.values():
            if row.passes and all(id(p) in dropped for p in e.engine.params(row.optimizer)):
                _forget(row)

    def _changed(self, e: events.Clipped | events.Unscaled) -> None:
        """Gradients are multiplied: they cannot be compared with those of before."""
        for row in self._rows.values():
            row.foreign = None

    def _steps(self, e: events.StepBegins) -> None:
        row = self._of(e.optimizer)
        row.steps += 1
        row.name = row.name or edits.name_of(e.optimizer)
        if e.closure or len(self._rows) < 2:
            return
        self._settle(row)
        if row.foreign is not None:
            self._compare(e.engine, row, row.foreign)
        for one in row.passes:
            one.used_by.add(id(e.optimizer))
        for other in self._rows.values():
            if other is not row and other.passes:
                self._note(e.engine, row, other)

    def _note(self, engine: Engine, row: _Optimizer, other: _Optimizer) -> None:
        """`row` steps: are all the gradients that `other` has by now of losses of `row`'s?"""
        mine, its = id(row.optimizer), id(other.optimizer)
        if all(mine in one.used_by and its not in one.used_by for one in other.passes):
            held = [p for p in engine.params(other.optimizer) if p.grad is not None]
            grads = _grads(held)
            copies, norm = engine.copies(grads), _length(engine.norms(grads))
            other.foreign = _Foreign(row, held, copies, norm)

    def _settle(self, row: _Optimizer) -> None:
        """Whether this optimizer uses what another one's own loss has made for it."""
        mine = {id(one) for one in row.passes}
        for taken in [t for t in self._open if t.other is row]:
            taken.dropped = not any(id(one) in mine for one in taken.own)
            self._open.remove(taken)

    def _compare(self, engine: Engine, row: _Optimizer, was: _Foreign) -> None:
        """What has come to the foreign gradients since then, and how the two go together."""
        row.foreign = None
        its = id(was.other.optimizer)
        foreign = [one for one in row.passes if its in one.used_by]
        own = [one for one in row.passes if its not in one.used_by]
        reach = all(one in was.other.passes for one in own)
        if not (own and reach and foreign) or any(p.grad is None for p in was.params):
            return
        now = _grads(was.params)
        whole, added = _length(engine.norms(now)), _length(engine.moved(now, was.copies))
        if was.norm and added and math.isfinite(whole + was.norm + added):
            cosine = (whole**2 - was.norm**2 - added**2) / (2 * was.norm * added)
            norms = was.norm, added
            taken = _Taken(row.steps, was.other, foreign[-1].place, own, norms, cosine)
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


def _forget(row: _Optimizer) -> None:
    row.passes, row.foreign = [], None


def _grads(params: Sequence[Any]) -> list[Any]:
    return [p.grad for p in params if p.grad is not None]


def _length(norms: Sequence[float]) -> float:
    return math.hypot(*norms)


def _finding(row: _Optimizer, dropped: Sequence[_Taken]) -> Finding:
    last = dropped[-1]
    kind, name = type(row.optimizer).__name__, row.name or "optimizer"
    other = f"{type(last.other.optimizer).__name__} {last.other.name}".strip()
    own = last.own[0].place
    because = (
        f"step {last.step} of {kind} {row.name} takes the gradient of a loss that was {other}'s "
        f"(norm {last.norms[0]:.3g}, from {last.foreign}) together with that of its own "
        f"(norm {last.norms[1]:.3g}): they point against each other, cosine {last.cosine:.2f}"
    )
    return finding(
        "error" if len(dropped) > 1 else "warning",
        "not_reset",
        because,
        f"reset the gradients before its own loss runs back: {name}.zero_grad(); or give the other "
        "loss detached values",
        own,
        detail=f"in {len(dropped)} steps",
        evidence=[f"step {t.step}: cosine {t.cosine:.2f}" for t in dropped[:4]],
        edit=edits.inserted(own, row.name and f"{row.name}.zero_grad()"),
    )
