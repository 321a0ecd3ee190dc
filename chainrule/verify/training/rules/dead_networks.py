"""Died: networks of which a step killed all units of a layer, so that nothing before it learns.

At first every parameter has a gradient; from one step on it is exactly 0 for all but the last ones,
which still get theirs. A loss that has come to its end gives nobody a gradient; what is not used in
a step is not reached by the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row

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


@dataclass(frozen=True)
class _Dead:
    """Parameters before the layer that died."""

    since: int
    count: int
    total: int
    place: Place | None
    names: str


@final
class Died(Part):
    """Finds `dead`, for layers that died while somebody looked on."""

    title = "layers that died"
    rows = (
        Row(
            "dead",
            lambda f: f.dead(),
            "from step {since} on the gradient of {count} of {total} parameters, all those before "
            "the last ones, is exactly 0; before that it was not: a step has brought all units of "
            "a layer to where its activation is flat",
            "a smaller learning rate; or leaky_relu / gelu, or clip_grad_norm_",
            kind="parameters",
            input="{names}",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._optimizers: dict[int, _Steps] = {}

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        row = self._optimizers.setdefault(id(e.optimizer), _Steps())
        passes = self.history.of(e).since_step
        if not e.closure:
            reached = [key for key in e.gradients if any(key in one.touched for one in passes)]
            row.step({key: e.gradients[key] for key in reached})

    def dead(self) -> Iterator[_Dead]:
        """At most one for each optimizer."""
        known, name = self.history.trainers, self.history.names.param
        for trainer, row in [(known[k], row) for k, row in self._optimizers.items() if k in known]:
            dead, left = row.lasting(zero=True) & row.alive, row.lasting(zero=False)
            order = [id(p) for p in trainer.params if id(p) in dead | left]
            if left and len(dead) >= _SHARE * len(order) and set(order[: len(dead)]) == dead:
                since = max([row.runs[key].begun for key in dead]) + 1
                names = join_names([name(p) for p in trainer.params if id(p) in dead])
                yield _Dead(since, len(dead), len(order), trainer.built_at, names)
