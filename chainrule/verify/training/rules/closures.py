"""Redrawn: an optimizer that asks for one function at several points, and is told of another one
each time, since the closure draws random numbers. A line search compares what it is told.
"""

from __future__ import annotations

from types import CodeType
from typing import final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text.hook_code import drawn_at

_CALLS = 3
"""Calls of a closure in one step: twice is what is done on purpose, at the same numbers or not."""


@final
class Redrawn(Part):
    """Finds `not_deterministic`, for closures."""

    title = "closures"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._calls = 0
        self._drew = 0
        self._most = 0
        """In the step with most of them, calls that drew."""
        self._at: tuple[CodeType | None, Place | None, str] = (None, None, "")

    def listens(self) -> Handlers:
        """Steps, and the closures that they call."""
        return {
            events.StepBegins: self._begins,
            events.ClosureEnds: self._called,
            events.StepEnds: self._ends,
        }

    def _begins(self, e: events.StepBegins) -> None:
        self._calls = self._drew = 0

    def _called(self, e: events.ClosureEnds) -> None:
        self._calls += 1
        self._drew += e.drew
        if e.drew:
            self._at = e.code, e.place, type(e.optimizer).__name__

    def _ends(self, e: events.StepEnds) -> None:
        if self._calls >= _CALLS and self._drew == self._calls:
            self._most = max(self._most, self._drew)

    def found(self, ledger: Ledger) -> list[Finding]:
        """The line that draws, if there is one in the closure."""
        if not self._most:
            return []
        code, place, optimizer = self._at
        because = (
            f"{optimizer} has called its closure {self._most} times in one step, to compare the "
            "values, and each time it drew random numbers: these are values of different functions"
        )
        advice = "draw once, before the step, and use that in every call; leave dropout out"
        if code is not None:
            place = Place(code.co_filename, drawn_at(code), code.co_qualname)
        return [finding("warning", "not_deterministic", because, advice, place)]
