"""Compiled steps are looked at in a copy of the process, where they run in Python.

Machine code shows nobody what it does. So the script itself runs as it would without us, and a copy
of the process runs it from its beginning once more, op by op, under the same observers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import TRAINING, Checked, Ledger
from chainrule.verify.script.again import fresh, unsuited
from chainrule.verify.script.apart import LostError, apart
from chainrule.verify.script.confined import confine
from chainrule.watch import Watch, watching

PATIENCE = 60.0
"""Seconds that the copy may take."""

Seen = tuple[int, Sequence[Finding], Ledger]
"""The exit code of a script, what was found in it, and what was looked at."""


@contextmanager
def uncompiled() -> Generator[None]:
    """Within it what is compiled runs in Python, as it does wherever somebody watches ops."""
    with watching(Watch()):
        yield


@dataclass(frozen=True, eq=False)
class Uncompiled:
    """How a script is run once more: `run()` runs it, and looks at it, with all observers."""

    run: Callable[[], Seen]

    def seen(self, names: Sequence[str], seconds: float) -> tuple[Sequence[Finding], Ledger]:
        """What is found in the compiled functions `names` where they run in Python. The observation
        took so many `seconds`.

        Raises:
            LostError: If the script could not be run once more.
        """
        why = unsuited(seconds)
        if why:
            raise LostError(why)
        code, found, ledger, refused = apart(self._looked, PATIENCE)
        if code:
            raise LostError(f"run in Python, {refused[0] if refused else f'exit code {code}'}")
        how = "its steps ran in Python, in a copy of the process, and were looked at there"
        ledger.checked += [Checked(f"{name}, compiled", TRAINING, 0, 0.0, how) for name in names]
        return found, ledger

    def _looked(self) -> tuple[int, list[Finding], Ledger, list[str]]:
        """In the copy: the run, and what it was refused."""
        held = fresh()  # what modules hold (open files) is not to be closed a second time
        refused = confine()
        with uncompiled():
            code, found, ledger = self.run()
        del held
        return code, list(found), ledger, refused
