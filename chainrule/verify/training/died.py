"""Died: networks of which a step killed all units of a layer, so that nothing before it learns.

At first every parameter has a gradient; from one step on it is exactly 0 for all but the last ones,
which still get theirs. A loss that has come to its end gives nobody a gradient; what is not used in
a step is not reached by the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training import events
from chainrule.verify.training.bus import Bus, Handlers, Part
from chainrule.verify.training.names import Names, listed
from chainrule.verify.training.said import said

_LAST = 3
"""Last steps in all of which a gradient must have been 0."""
_SHARE = 0.5
"""Of the parameters, so many at least."""


@dataclass(eq=False)
class _Steps:
    """The steps of one optimizer."""

    params: list[Any] = field(default_factory=list[Any])
    place: Place | None = None
    alive: set[int] = field(default_factory=set[int])
    """Ids of those that ever had a gradient other than 0."""
    zeros: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    """For each step, ids of those whose gradient was 0."""
    others: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    """For each step, ids of those with another one."""


@final
class Died(Part):
    """Finds `dead`, for layers that died while somebody looked on."""

    title = "layers that died"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._names = Names()
        self._optimizers: dict[int, _Steps] = {}
        self._touched: frozenset[int] = frozenset()

    def listens(self) -> Handlers:
        """Optimizers, models, backward passes and steps."""
        return {
            events.Built: self._built,
            events.Entered: self._entered,
            events.BackwardEnds: self._ended,
            events.StepBegins: self._steps,
        }

    def _built(self, e: events.Built) -> None:
        self._optimizers.setdefault(id(e.optimizer), _Steps()).place = e.place

    def _entered(self, e: events.Entered) -> None:
        if e.depth == 0:
            self._names.add(e.engine, e.module)

    def _ended(self, e: events.BackwardEnds) -> None:
        self._touched |= e.touched

    def _steps(self, e: events.StepBegins) -> None:
        row, touched = self._optimizers.setdefault(id(e.optimizer), _Steps()), self._touched
        self._touched = frozenset()
        if e.closure:
            return
        row.params = list(e.params)
        norms = {key: n for key, n in e.gradients.items() if key in touched}
        zeros = frozenset([key for key, n in norms.items() if n == 0])
        row.alive |= norms.keys() - zeros
        row.zeros.append(zeros)
        row.others.append(frozenset(norms.keys() - zeros))

    def found(self, ledger: Ledger) -> list[Finding]:
        """The parameters before the layer that died, for each optimizer."""
        return [f for row in self._optimizers.values() if (f := self._judged(row)) is not None]

    def _judged(self, row: _Steps) -> Finding | None:
        if len(row.zeros) <= _LAST:
            return None
        dead = row.alive.intersection(*row.zeros[-_LAST:])
        left = row.others[-1].intersection(*row.others[-_LAST:])
        order = [id(p) for p in row.params if id(p) in dead | left]
        first = order[: len(dead)]
        if not left or len(dead) < _SHARE * len(order) or set(first) != dead:
            return None
        since = next(k for k in range(len(row.zeros)) if all(dead <= z for z in row.zeros[k:]))
        names = [self._names.param(p) for p in row.params if id(p) in dead]
        because = (
            f"from step {since + 1} on the gradient of {len(dead)} of {len(order)} parameters, all "
            "those before the last ones, is exactly 0; before that it was not: a step has brought "
            "all units of a layer to where its activation is flat"
        )
        advice = "a smaller learning rate; or leaky_relu / gelu, or clip_grad_norm_"
        return said(
            "warning", "dead", because, advice, row.place, kind="parameters", input=listed(names)
        )
