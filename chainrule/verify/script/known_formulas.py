"""Formulas of a running script: recorded in a copy of the process, in which the script goes on.

The copy is made at the first backward pass, or in the second turn of a loop that trains by hand.
What it records until it has seen enough is held against the table of known formulas.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from types import FrameType
from typing import final

from chainrule.verify.finding import Finding
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.recording import Recording
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.script.byhand import code_hooks
from chainrule.verify.script.byhand.code_hooks import TURNS
from chainrule.verify.script.clock import Steps
from chainrule.verify.script.formula_findings import WHAT, search, spoken_of
from chainrule.verify.script.sandbox import fork
from chainrule.verify.script.sandbox.fork import LostError
from chainrule.verify.stopwatch import Stopwatch
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.user_frames import user_frame, users_files, with_callers

_RECORDS = 1.5
"""Seconds of work for which the script is recorded."""
_SEARCHES = 3.5
_PATIENCE = 30.0
_AT = 2
"""The turn of a loop."""


def _look(silence: Callable[[], None]) -> tuple[list[Finding], list[Skipped]]:
    """What is wrong with the formulas of the running script; in the copy, it goes on."""
    from chainrule.verify.formulas.table import FORMULAS  # of which there are many

    files = users_files()
    formulas = spoken_of(files, FORMULAS)
    if not formulas:
        return [], []
    if why := fork.reason_not_to_branch():
        return [], [Skipped(WHAT, why)]
    try:
        sent = fork.branch_off(_PATIENCE)
    except LostError as error:
        return [], [Skipped(WHAT, str(error))]
    if sent is fork.HERE:
        code_hooks.silence()
        silence()
        _Copy(files, formulas).start()
        return [], []
    return sent, []


@final
class _Copy:
    """The copy: records, searches and ends."""

    def __init__(self, files: list[str], formulas: list[Formula]) -> None:
        self._formulas = formulas
        self._watch = Stopwatch()
        self._recording = Recording(files, self._is_over, self.end)

    def start(self) -> None:
        """Record from now on."""
        fork.before_end(self.end)
        _close_door()
        for frame in with_callers(user_frame()):
            self._recording.follow(frame)
        sys.settrace(self._recording.call)

    def _is_over(self) -> bool:
        is_seen = self._recording.came_again
        return self._watch.is_over(_RECORDS if is_seen else 2 * _RECORDS)

    def end(self) -> None:
        """Search what was recorded, and send what was found."""
        sys.settrace(None)
        _close_door()
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
        begun = process_time()

        def is_over() -> bool:
            return process_time() - begun > _SEARCHES

        fork.send(search(self._recording.activations, self._formulas, is_over))


def _close_door() -> None:
    """Nobody looks at calls of PyTorch's any more."""
    door = sys.modules.get("chainrule.verify.pytorch.door")
    if door is not None:
        door.close()


@final
class FormulasOfPasses(Part):
    """Looks at the first backward pass."""

    title = WHAT

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._is_done = False
        self._found: list[Finding] = []
        self._skipped: list[Skipped] = []

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        if self._is_done or fork.is_branch():
            return
        self._is_done = True
        self._found, self._skipped = _look(self._bus.silence)

    def _reported(self, ledger: Ledger) -> list[Finding]:
        ledger.skipped += self._skipped
        return self._found


@final
class FormulasOfLoops(Observer):
    """Looks at the second turn of a loop that changes its parameters itself."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._turns: dict[int, int] = {}
        self._is_done = False
        self._found: list[Finding] = []
        self._skipped: list[Skipped] = []

    def start(self) -> None:
        """Wait for the second turn of a loop."""
        if fork.can_fork():
            TURNS.listen(self._iteration_begins)

    def stop(self) -> None:
        """Look at no more."""
        TURNS.unlisten(self._iteration_begins)

    def _iteration_begins(self, line: int, frame: FrameType) -> None:
        self._turns[line] = self._turns.get(line, 0) + 1
        if self._is_done or self._steps.is_watched or self._turns[line] < _AT or fork.is_branch():
            return
        self._is_done = True
        self._found, self._skipped = _look(lambda: None)

    def findings(self, ledger: Ledger) -> list[Finding]:
        """What was found."""
        ledger.skipped += self._skipped
        return self._found
