"""Gradients that a program gives to its parameters itself: `p.grad = g`, of `autograd.grad`.

Whose derivative a tensor is, is known from the call that gave it. One that stands in another
parameter's `grad` at a step has come there by a wrong order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts.followed import Followed
from chainrule.verify.training.facts.names import Names, listed
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import checked, finding

_TIMES = 2
"""Steps in which it must be so."""


@dataclass(eq=False)
class _Swapped:
    """Parameters that were given the derivative by another one."""

    derived_at: Place | None
    steps: int = 0
    pairs: dict[str, str] = field(default_factory=dict[str, str])
    """Name of a parameter: the one by which what it was given is the derivative."""


@final
class Assigned(Part):
    """Finds `wrong_input` in gradients that are given by hand."""

    title = "gradients given by hand"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._names = Names()
        self._owners = Followed[tuple[Any, Place | None]]()
        """Of a gradient: the tensor by which it is the derivative, and where it was taken."""
        self._steps = 0
        self._found: dict[Place | None, _Swapped] = {}

    def listens(self) -> Handlers:
        """Derivatives, models and steps."""
        return {
            events.Given: self._given,
            events.Entered: self._entered,
            events.StepBegins: self._steps_with,
        }

    def _entered(self, e: events.Entered) -> None:
        if e.depth == 0:
            self._names.add(e.engine, e.module)

    def _given(self, e: events.Given) -> None:
        for x, g in zip(e.inputs, e.gradients, strict=False):
            if g is not None:
                self._owners.put(g, (x, e.place))

    def _steps_with(self, e: events.StepBegins) -> None:
        own = {id(p) for p in e.params}
        known = [(p, row) for p in e.params if (row := self._owners.of(p.grad)) is not None]
        self._steps += bool(known)
        swapped = [(p, x, at) for p, (x, at) in known if x is not p and id(x) in own]
        for at in {at for *_, at in swapped}:
            row = self._found.setdefault(at, _Swapped(at))
            row.steps += 1
            row.pairs |= self._named({id(p): (p, x) for p, x, a in swapped if a == at})

    def _named(self, pairs: Mapping[int, tuple[Any, Any]]) -> dict[str, str]:
        return {self._names.param(p): self._names.param(x) for p, x in pairs.values()}

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each line that derives."""
        if self._steps:
            checked(ledger, self.title, f"{self._steps} steps")
        return [_finding(row) for row in self._found.values() if row.steps >= _TIMES]


def _finding(row: _Swapped) -> Finding:
    pairs = [f"{p}.grad holds the derivative by {x}" for p, x in row.pairs.items()]
    return finding(
        "error",
        "wrong_input",
        f"in {row.steps} steps {'; '.join(pairs[:3])}",
        "give each parameter its own: autograd.grad returns them in the order of its inputs",
        row.derived_at,
        subject=listed(row.pairs),
        kind="parameters",
    )
