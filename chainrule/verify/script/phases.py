"""A script that trains one thing after another: a teacher and then its student, a body and then a
head. Each is observed for its first few steps.

The first phase is the script as it starts. Another one begins when an optimizer is made on a line
on which none was made before: a search over learning rates makes all of its optimizers on one line,
and is one phase. It ends the look at later steps of the phase before. Between phases nothing is
watched but the making of optimizers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, final

from chainrule.verify.patches import Patches
from chainrule.verify.place import Place
from chainrule.verify.reporting.report import Report
from chainrule.verify.script.session import Session
from chainrule.verify.where import Line, here, placed

MOST = 4
"""Phases of a script."""


@final
class Phases:
    """The sessions of one run.

    Args:
        make: Makes the session of a phase: of its number, from 1 on, the place of the optimizer
            with which it begins, and whom it gives its report to.
        deliver: Is given the report on each phase as soon as it is there.
        most: How many there are at most.
    """

    def __init__(
        self,
        make: Callable[[int, Place | None, Callable[[Report], None]], Session],
        deliver: Callable[[Report], None],
        most: int = MOST,
    ) -> None:
        self._make = make
        self._deliver = deliver
        self._most = most
        self._patches = Patches()
        self._lines: set[Line | None] = set()
        self._pid = os.getpid()
        self._is_over = False
        self.sessions: list[Session] = []
        self.reports: list[Report] = []

    @property
    def last(self) -> Session:
        """The session that is running, or the last one that ran."""
        return self.sessions[-1]

    def begin(self, at: Place | None = None) -> None:
        """The next phase begins."""
        session = self._make(len(self.sessions) + 1, at, self._deliver_phase)
        self.sessions.append(session)
        session.start()

    def end(self, why: str, code: int) -> None:
        """The script has ended."""
        self._is_over = True
        self._patches.undo()
        self.last.finish(why, code)

    def _deliver_phase(self, report: Report) -> None:
        """A phase has been seen: wait for the next one. Where an optimizer was made and nothing
        was trained is none."""
        if self.last.clock.has_seen_training or not self.reports:
            self.reports.append(report)
            self._deliver(report)
        self.waits(True)

    def waits(self, on: bool) -> None:
        """Wait for an optimizer with which the next phase begins, or no longer."""
        self._patches.undo()
        self._lines |= self.last.clock.made_at
        if not on or self._is_over or len(self.sessions) >= self._most:
            return
        for kind in _optimizers():
            self._patches.put(
                kind, "__init__", lambda init, kind=kind: self._watch_init(kind, init)
            )

    def _watch_init(self, kind: Any, init: Any) -> Any:
        def observed(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            if self._patches.on and self._is_new():
                self.last.finish()
                self._patches.undo()
                self.begin(placed(here()))
                kind.__init__(optimizer, *args, **kwargs)  # as the new session watches it
            else:
                init(optimizer, *args, **kwargs)

        return observed

    def _is_new(self) -> bool:
        """Whether an optimizer is made where none has been made."""
        line = here()
        is_new = line is not None and line not in self._lines and os.getpid() == self._pid
        self._lines.add(line)
        return is_new


def _optimizers() -> list[Any]:
    """The classes of all optimizers, of the libraries that are there."""
    names = ("torch.optim.optimizer", "chainrule.optim.optimizer")
    return [sys.modules[name].__dict__["Optimizer"] for name in names if name in sys.modules]
