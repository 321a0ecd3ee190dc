"""Strays: gradients that a pass has left in parameters which it was not made for, and that a later
step of theirs takes, though its first one did not.

A generator's loss flows through the discriminator. Whoever resets the discriminator's gradients
behind its step, and not in front of its backward pass, trains it by the generator's loss as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Trainer, Use
from chainrule.verify.training.record.bus import Handlers, Part
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import edits

_LEAST = 2
"""Steps, besides the first one, of which it must be so."""


@final
class Strays(Part):
    """Finds `not_reset` between two optimizers."""

    title = "gradients of other optimizers' passes"

    def listens(self) -> Handlers:
        """Nothing: the history tells it."""
        return {}

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each optimizer whose steps take what was left for another one."""
        found: list[Finding] = []
        for row in [row for row in self._bus.history.trainers.values() if row.is_new]:
            strays = _strays(row.taken)
            if strays and row.resets >= len(row.taken) - 1:  # Else that is what is wrong.
                found.append(_finding(row, Counter(strays).most_common(1)[0][0]))
        return found


def _strays(taken: Sequence[Sequence[Use]]) -> list[Place]:
    """Where the passes are that all steps but the first have taken as well, each before their own,
    and each taken by another optimizer before."""
    if len(taken) <= _LEAST or not taken[0] or any(use.by_others for use in taken[0]):
        return []
    own = [use.place for use in taken[0]]
    found: list[Place] = []
    for uses in taken[1:]:
        more = uses[: len(uses) - len(own)]
        if not more or [use.place for use in uses[len(more) :]] != own:
            return []
        places = [use.place for use in more if use.by_others and use.place not in own]
        found += [place for place in places if place is not None]
        if len(places) < len(more):
            return []
    return found


def _finding(row: Trainer, stray: Place) -> Finding:
    own = row.taken[0][-1].place
    because = (
        f"the first step of {row.kind} takes what the backward pass at {own} has made, all "
        f"{len(row.taken) - 1} later ones what the one at {stray} has left in its parameters as "
        "well, which another optimizer had used by then"
    )
    return finding(
        "error",
        "not_reset",
        because,
        f"{row.name or 'its optimizer'}.zero_grad() in front of its own backward pass",
        own,
        detail=f"it is reset at {row.reset_at}, before that" if row.reset_at else "",
        edit=edits.inserted(own, f"{row.name}.zero_grad()" if row.name else ""),
    )
