"""What looks at a running training script. The script knows nothing of it, and must not notice."""

from __future__ import annotations

import abc
import sys

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger


class Observer(abc.ABC):
    """Installed while a script runs; asked for findings when enough steps have been seen.

    Whatever an observer does leaves random streams, gradients and results as they are. An exception
    of its own is caught where it is installed, noted in the ledger, and turns it off.
    """

    @abc.abstractmethod
    def start(self) -> None:
        """Put hooks in place."""

    def step_done(self, step: int) -> None:
        """An optimizer finished step number `step`, counted from 1, if that matters."""
        return

    @abc.abstractmethod
    def stop(self) -> None:
        """Take the hooks away: nothing may stay that costs time."""

    @abc.abstractmethod
    def findings(self, ledger: Ledger) -> list[Finding]:
        """What was found in the steps seen; called once, after `stop`. Notes in the ledger what it
        looked at and what it did not."""


class ObserverAtEnd(Observer):
    """Looks once, when the steps are over, at the script and at the modules that it has loaded."""

    def __init__(self) -> None:
        self.before = sys.modules.keys() - {"__main__"}
        """Names of modules that were there before the script ran."""

    def start(self) -> None:
        """There are no hooks."""

    def stop(self) -> None:
        """There are no hooks."""
