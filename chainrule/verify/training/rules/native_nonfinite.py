"""The first NaN or infinity in chainrule's programs, where `explain` names the op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from chainrule.explain import BadOp, first_bad
from chainrule.explain.nan import backward_found
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row


@final
class OwnBad(Part):
    """Finds `first_bad` in chainrule programs."""

    title = "NaN and infinities"
    rows = (
        Row(
            "first_bad",
            lambda f: [f.found] if f.found is not None else [],
            lambda c: " ".join(str(c[0]).split()),
            lambda c: f"keep the arguments of {c[0].op} away from where it has no finite value",
            "error",
            place=lambda c: _place(c[0].where),
            detail=lambda c: f"in step {c[1]}",
            subject=lambda c: c[0].op,
            kind="op",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._steps = 0
        self._candidate: BadOp | None = None
        self.found: tuple[BadOp, int] | None = None

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        root = e.roots[0]
        if not np.all(np.isfinite(root.value)):
            self._candidate = first_bad(root) or first_bad(root, inf=True)

    @on(events.Pulled)
    def _pulled(self, e: events.Pulled) -> None:
        if self._candidate is None:
            self._candidate = backward_found(e.node, e.g, e.bars, inf=True)

    @on(events.StepBegins)
    def _step(self, e: events.StepBegins) -> None:
        self._steps += 1
        grads = [p.grad for p in e.params if p.grad is not None]
        bad = any(not np.all(np.isfinite(g.value)) for g in grads)
        if bad and self._candidate is not None and self.found is None:
            self.found = (self._candidate, self._steps)
        self._candidate = None

    def seen(self) -> Sequence[str]:
        """How many steps there were."""
        return [f"{self._steps} steps"] if self._steps else []


def _place(where: Any) -> Place | None:
    file, _, line = str(where).rpartition(":")
    return Place(file, int(line)) if file and line.isdigit() else None
