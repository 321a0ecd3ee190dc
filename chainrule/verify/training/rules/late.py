"""Late: a step between a loss and its backward pass, in every turn of the loop.

The first step has no gradient, each later one that of the batch before, taken where the parameters
were before they were moved. A loop that begins with the step and computes its loss behind it is
another thing, and right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import edits

_LEAST = 2
"""Backward passes of which it must be so."""


@dataclass(eq=False)
class _Optimizer:
    """The steps of one optimizer, and the backward passes that reach its parameters."""

    optimizer: Any
    steps: int = 0
    empty: bool = False
    """Whether its first step had no gradient."""
    serial: int = 0
    """That of the next node when it had stepped last."""
    stepped_at: Place | None = None
    backward_at: Place | None = None
    late: int = 0
    """Passes from a loss that was there before the last step."""
    others: int = 0


@final
class Late(Part):
    """Finds `stale` where a step comes between a loss and its backward pass."""

    title = "order of losses, backward passes and steps"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[int, _Optimizer] = {}

    def listens(self) -> Handlers:
        """Steps and backward passes."""
        return {
            events.StepBegins: self._steps,
            events.StepEnds: self._stepped,
            events.BackwardEnds: self._ends,
            events.Built: self._built,
        }

    def _of(self, optimizer: Any) -> _Optimizer:
        return self._rows.setdefault(id(optimizer), _Optimizer(optimizer))

    def _built(self, e: events.Built) -> None:
        self._of(e.optimizer)

    def _steps(self, e: events.StepBegins) -> None:
        row = self._of(e.optimizer)
        row.steps += 1
        row.stepped_at = e.place
        if row.steps == 1:
            row.empty = not e.closure and not any(e.gradients.values())

    def _stepped(self, e: events.StepEnds) -> None:
        self._of(e.optimizer).serial = e.engine.serial()

    def _ends(self, e: events.BackwardEnds) -> None:
        begin = e.begin
        graph = begin.graph
        plain = bool(graph.serials) and not (graph.truncated or begin.retained)
        for row in self._rows.values():
            if any(id(p) in e.touched for p in begin.engine.params(row.optimizer)):
                is_late = plain and row.steps > 0 and graph.newest < row.serial
                row.late += is_late
                row.others += not is_late
                row.backward_at = begin.place

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each optimizer of which nothing else was seen."""
        rows = [row for row in self._rows.values() if row.empty and not row.others]
        return [_finding(row) for row in rows if row.late >= _LEAST]


def _finding(row: _Optimizer) -> Finding:
    kind = type(row.optimizer).__name__
    because = (
        f"{row.late} times {kind} steps between a loss and its backward pass: its first step has "
        "no gradient, each later one that of the loss before, where the parameters were then"
    )
    return finding(
        "warning",
        "stale",
        because,
        "step (and reset) behind the backward pass",
        row.stepped_at,
        edit=edits.moved_behind(row.stepped_at, row.backward_at),
    )
