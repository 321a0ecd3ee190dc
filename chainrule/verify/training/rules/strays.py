"""Strays: gradients that a pass has left in parameters which it was not made for, and that a later
step of theirs takes, though its first one did not.

A generator's loss flows through the discriminator. Whoever resets the discriminator's gradients
behind its step, and not in front of its backward pass, trains it by the generator's loss as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import edits

_LEAST = 2
"""Steps, besides the first one, of which it must be so."""


@dataclass(eq=False)
class _Pass:
    """A backward pass, as one optimizer sees it."""

    place: Place | None
    touched: frozenset[int]
    others: bool = False
    """Whether another optimizer has taken its gradients."""


@dataclass(eq=False)
class _Optimizer:
    """What the steps of one optimizer have taken."""

    name: str = ""
    passes: list[_Pass] = field(default_factory=list[_Pass])
    """Those that reached its parameters since the last reset or step."""
    taken: list[tuple[_Pass, ...]] = field(default_factory=list[tuple[_Pass, ...]])
    resets: int = 0
    reset_at: Place | None = None


@final
class Strays(Part):
    """Finds `not_reset` between two optimizers."""

    title = "gradients of other optimizers' passes"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[int, tuple[events.Built, _Optimizer]] = {}

    def listens(self) -> Handlers:
        """Optimizers that are made, backward passes, resets, steps."""
        return {
            events.Built: self._built,
            events.BackwardEnds: self._ends,
            events.Zeroed: self._zeroed,
            events.StepBegins: self._steps,
        }

    def _built(self, e: events.Built) -> None:
        if e.place is not None:  # of others the first step may be over
            self._rows[id(e.optimizer)] = e, _Optimizer()

    def _ends(self, e: events.BackwardEnds) -> None:
        for built, row in self._rows.values():
            if any(id(p) in e.touched for p in built.engine.params(built.optimizer)):
                row.passes.append(_Pass(e.begin.place, e.touched))

    def _zeroed(self, e: events.Zeroed) -> None:
        ids = {id(p) for p in e.params}
        for built, row in self._rows.values():
            if all(id(p) in ids for p in built.engine.params(built.optimizer)):
                row.passes, row.reset_at = [], e.place
                row.resets += 1

    def _steps(self, e: events.StepBegins) -> None:
        ids = {id(p) for p in e.params}
        for key, (_, row) in self._rows.items():
            if key == id(e.optimizer):
                row.taken.append(tuple(row.passes))
                row.name = row.name or edits.name_of(e.optimizer)
                row.passes = []
            else:
                for one in row.passes:
                    one.others |= bool(one.touched & ids)

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each optimizer whose steps take what was left for another one."""
        found: list[Finding] = []
        for built, row in self._rows.values():
            strays = _strays(row.taken)
            if strays and row.resets >= len(row.taken) - 1:  # Else that is what is wrong.
                found.append(_finding(built, row, Counter(strays).most_common(1)[0][0]))
        return found


def _strays(taken: list[tuple[_Pass, ...]]) -> list[Place]:
    """Where the passes are that all steps but the first have taken as well, each before their own,
    and each taken by another optimizer before."""
    if len(taken) <= _LEAST or not taken[0] or any(p.others for p in taken[0]):
        return []
    own = [p.place for p in taken[0]]
    found: list[Place] = []
    for passes in taken[1:]:
        more = passes[: len(passes) - len(own)]
        if not more or [p.place for p in passes[len(more) :]] != own:
            return []
        places = [p.place for p in more if p.others and p.place not in own]
        found += [place for place in places if place is not None]
        if len(places) < len(more):
            return []
    return found


def _finding(built: events.Built, row: _Optimizer, stray: Place) -> Finding:
    kind = type(built.optimizer).__name__
    own = row.taken[0][-1].place
    name = row.name or "its optimizer"
    because = (
        f"the first step of {kind} takes what the backward pass at {own} has made, all "
        f"{len(row.taken) - 1} later ones what the one at {stray} has left in its parameters as "
        "well, which another optimizer had used by then"
    )
    return finding(
        "error",
        "not_reset",
        because,
        f"{name}.zero_grad() in front of its own backward pass",
        own,
        detail=f"it is reset at {row.reset_at}, before that" if row.reset_at else "",
        edit=edits.inserted(own, f"{row.name}.zero_grad()" if row.name else ""),
    )
