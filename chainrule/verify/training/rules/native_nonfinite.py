"""The first NaN or infinity of a chainrule program: `explain` names the op, this says when."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from chainrule.explain import BadOp, first_bad
from chainrule.explain.nan import backward_found
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import checked, finding


@final
class OwnBad(Part):
    """Finds `first_bad` in chainrule programs."""

    title = "NaN and infinities"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._steps = 0
        self._candidate: BadOp | None = None
        self._found: tuple[BadOp, int] | None = None

    def listens(self) -> Handlers:
        """Backward passes, their rules, and steps."""
        return {
            events.BackwardBegins: self._begins,
            events.Pulled: self._pulled,
            events.StepBegins: self._step,
        }

    def _begins(self, e: events.BackwardBegins) -> None:
        root = e.roots[0]
        if not np.all(np.isfinite(root.value)):
            self._candidate = first_bad(root) or first_bad(root, inf=True)

    def _pulled(self, e: events.Pulled) -> None:
        if self._candidate is None:
            self._candidate = backward_found(e.node, e.g, e.bars, inf=True)

    def _step(self, e: events.StepBegins) -> None:
        self._steps += 1
        grads = [p.grad for p in e.params if p.grad is not None]
        bad = any(not np.all(np.isfinite(g.value)) for g in grads)
        if bad and self._candidate is not None and self._found is None:
            self._found = (self._candidate, self._steps)
        self._candidate = None

    def found(self, ledger: Ledger) -> list[Finding]:
        """The first one, if a step was taken with it."""
        if self._steps:
            checked(ledger, self.title, f"{self._steps} steps")
        if self._found is None:
            return []
        op, step = self._found
        because = " ".join(str(op).split())
        advice = f"keep the arguments of {op.op} away from where it has no finite value"
        return [
            finding("error", "first_bad", because, advice, _place(op.where),
                 detail=f"in step {step}", subject=op.op, kind="op")
        ]  # fmt: skip


def _place(where: Any) -> Place | None:
    file, _, line = str(where).rpartition(":")
    return Place(file, int(line)) if file and line.isdigit() else None
