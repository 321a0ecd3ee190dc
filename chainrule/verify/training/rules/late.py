"""Late: a step between a loss and its backward pass, in every iteration of the loop.

The first step has no gradient, each later one that of the batch before, taken where the parameters
were before they were moved. A loop that begins with the step and computes its loss behind it is
another thing, and right.
"""

from __future__ import annotations

from typing import final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.training.facts.history import Trainer
from chainrule.verify.training.record.bus import Handlers, Part
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import edits

_LEAST = 2
"""Backward passes of which it must be so."""


@final
class Late(Part):
    """Finds `stale` where a step comes between a loss and its backward pass."""

    title = "order of losses, backward passes and steps"

    def listens(self) -> Handlers:
        """Nothing: the history tells it."""
        return {}

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each optimizer of which nothing else was seen."""
        rows = [r for r in self._bus.history.trainers.values() if r.begins_empty and not r.in_time]
        return [_finding(row) for row in rows if row.late >= _LEAST]


def _finding(row: Trainer) -> Finding:
    because = (
        f"{row.late} times {row.kind} steps between a loss and its backward pass: its first step "
        "has no gradient, each later one that of the loss before, where the parameters were then"
    )
    return finding(
        "warning",
        "stale",
        because,
        "step (and reset) behind the backward pass",
        row.stepped_at,
        edit=edits.moved_behind(row.stepped_at, row.backward_at),
    )
