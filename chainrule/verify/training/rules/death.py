"""Died: networks of which a step killed all units of a layer, so that nothing before it learns.

At first every parameter has a gradient; from one step on it is exactly 0 for all but the last ones,
which still get theirs. A loss that has come to its end gives nobody a gradient; what is not used in
a step is not reached by the backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.training.facts.history import Trainer
from chainrule.verify.training.facts.names import Names, listed
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import finding

_LAST = 3
"""Last steps in all of which a gradient must have been 0."""
_SHARE = 0.5
"""Of the parameters, so many at least."""


class _Run(NamedTuple):
    """Steps in a row in which a parameter was reached, and had a gradient, or one of 0."""

    zero: bool
    begun: int


@dataclass(eq=False)
class _Steps:
    """The steps of one optimizer; of each parameter what was last."""

    count: int = 0
    alive: set[int] = field(default_factory=set[int])
    """Ids of those that ever had a gradient other than 0."""
    runs: dict[int, _Run] = field(default_factory=dict[int, _Run])

    def step(self, norms: Mapping[int, float]) -> None:
        """Count a step, of those that it reached the gradients' norms by id."""
        before, self.runs = self.runs, {}
        for key, norm in norms.items():
            run = before.get(key)
            same = run is not None and run.zero == (norm == 0)
            self.runs[key] = run if run is not None and same else _Run(norm == 0, self.count)
        self.alive |= {key for key, norm in norms.items() if norm != 0}
        self.count += 1

    def lasting(self, *, zero: bool) -> set[int]:
        """Ids of those of which the last steps were all so."""
        rows = self.runs.items()
        return {k for k, r in rows if r.zero == zero and self.count - r.begun >= _LAST}


@final
class Died(Part):
    """Finds `dead`, for layers that died while somebody looked on."""

    title = "layers that died"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._names = Names()
        self._optimizers: dict[int, _Steps] = {}

    def listens(self) -> Handlers:
        """Models and steps."""
        return {events.Entered: self._entered, events.StepBegins: self._steps}

    def _entered(self, e: events.Entered) -> None:
        if e.depth == 0:
            self._names.add(e.engine, e.module)

    def _steps(self, e: events.StepBegins) -> None:
        row = self._optimizers.setdefault(id(e.optimizer), _Steps())
        passes = self._bus.history.of(e).since_step
        if not e.closure:
            reached = [key for key in e.gradients if any(key in one.touched for one in passes)]
            row.step({key: e.gradients[key] for key in reached})

    def found(self, ledger: Ledger) -> list[Finding]:
        """The parameters before the layer that died, for each optimizer."""
        known = self._bus.history.trainers
        rows = [(known[key], row) for key, row in self._optimizers.items() if key in known]
        return [f for trainer, row in rows if (f := self._judged(trainer, row)) is not None]

    def _judged(self, trainer: Trainer, row: _Steps) -> Finding | None:
        dead, left = row.lasting(zero=True) & row.alive, row.lasting(zero=False)
        order = [id(p) for p in trainer.params if id(p) in dead | left]
        if not left or len(dead) < _SHARE * len(order) or set(order[: len(dead)]) != dead:
            return None
        since = max([row.runs[key].begun for key in dead])
        names = [self._names.param(p) for p in trainer.params if id(p) in dead]
        because = (
            f"from step {since + 1} on the gradient of {len(dead)} of {len(order)} parameters, all "
            "those before the last ones, is exactly 0; before that it was not: a step has brought "
            "all units of a layer to where its activation is flat"
        )
        advice = "a smaller learning rate; or leaky_relu / gelu, or clip_grad_norm_"
        return finding(
            "warning",
            "dead",
            because,
            advice,
            trainer.built_at,
            kind="parameters",
            input=listed(names),
        )
