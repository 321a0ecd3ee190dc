"""The phases of a script that trains one thing after another: a teacher and then its student, a
body and then a head; and of one that goes on when values are loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, final

from chainrule.verify.patches import Patches
from chainrule.verify.place import Place
from chainrule.verify.reporting.report import Report
from chainrule.verify.script.clock import Origin, listed, shapes_of
from chainrule.verify.script.session import Session
from chainrule.verify.user_frames import Line, here, placed

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
        late: Whether one may begin where values are loaded into a model.
    """

    def __init__(
        self,
        make: Callable[[int, Place | None, Callable[[Report], None]], Session],
        deliver: Callable[[Report], None],
        most: int = MOST,
        late: bool = True,
    ) -> None:
        self._make = make
        self._deliver = deliver
        self._most = most
        self._patches = Patches()
        self._made: set[Origin] = set()
        self._late = late
        self._late_at = set[Line]()
        self.has_late = False
        """Whether one has begun so."""
        self._pid = os.getpid()
        self._is_over = False
        self.sessions: list[Session] = []
        self.reports: list[Report] = []

    @property
    def last(self) -> Session:
        """The session that is running, or the last one that ran."""
        return self.sessions[-1]

    def begin(self, at: Place | None = None, is_late: bool = False) -> None:
        """The next phase begins."""
        self.has_late |= is_late
        session = self._make(len(self.sessions) + 1, at, self._deliver_phase)
        self.sessions.append(session)
        session.start()

    def end(self, why: str, code: int) -> None:
        """The script has ended."""
        self._is_over = True
        self._patches.undo()
        self.last.finish(why, code)

    def _deliver_phase(self, report: Report) -> None:
        """A phase has been seen: wait for the next one. Where an optimizer was made, or values were
        loaded, and nothing was trained is none, but for what is wrong there."""
        self._late_at |= self.last.clock.loaded_at
        if self.last.clock.has_seen_training or not self.reports or report.findings:
            self.reports.append(report)
            self._deliver(report)
        self.waits(True)

    def waits(self, on: bool) -> None:
        """Wait for an optimizer with which the next phase begins, or no longer."""
        self._patches.undo()
        self._made |= self.last.clock.made_at
        if not on or self._is_over or len(self.sessions) >= self._most:
            return
        for kind in _optimizers():
            self._patches.around(kind, "__init__", partial(self._watch_init, kind))
        if self._late and "torch.nn" in sys.modules:
            kind: Any = sys.modules["torch.nn"].Module
            self._patches.around(kind, "load_state_dict", partial(self._watch_load, kind))

    def _watch_init(
        self, kind: Any, init: Any, optimizer: Any, params: Any, *args: Any, **kwargs: Any
    ) -> None:  # fmt: skip
        params = listed(params)
        if self._is_new(params):
            self.last.finish()
            self._patches.undo()
            self.begin(placed(here()))
            init = kind.__init__  # as the new session watches it
        init(optimizer, params, *args, **kwargs)

    def _watch_load(self, kind: Any, load: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        """Values that are loaded when a phase is over, on a line that has loaded none, begin the
        next one: a training goes on, or the best model comes back."""
        if self._begins_late():
            load = kind.load_state_dict  # as the new session watches it
        return load(module, *args, **kwargs)

    def _begins_late(self) -> bool:
        """Begin the next phase, if the last one is over and none has begun on this line."""
        at, is_over = here(), self.last.report is not None
        if not is_over or at is None or at in self._late_at or os.getpid() != self._pid:
            return False
        self._late_at.add(at)
        self._patches.undo()
        self.begin(placed(at), is_late=True)
        return True

    def _is_new(self, params: Any) -> bool:
        """Whether an optimizer is made where none of such parameters has been made."""
        origin = here(), shapes_of(params)
        is_new = origin[0] is not None and origin not in self._made and os.getpid() == self._pid
        self._made.add(origin)
        return is_new


def _optimizers() -> list[Any]:
    """The classes of all optimizers, of the libraries that are there."""
    names = ("torch.optim.optimizer", "chainrule.optim.optimizer")
    return [sys.modules[name].__dict__["Optimizer"] for name in names if name in sys.modules]
