"""Is what the parameters get the derivative of the loss? One step's calls are recorded to tell.

Where the way from parameters to the loss is cut, the step is run again, in a copy of the process,
with the cuts open: what is lost there decides. A cut that costs nothing (a maximum subtracted
for the sake of the range, running statistics) is never mentioned.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import TRAINING, Checked, Ledger, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.script.sandbox.branch import is_branch
from chainrule.verify.script.sandbox.fork import LostError, apart
from chainrule.verify.script.step import numbers
from chainrule.verify.script.step.costs import Step, seen_of
from chainrule.verify.script.step.cuts import Cut, Slice
from chainrule.verify.script.step.entries import NUMBER, Calls
from chainrule.verify.script.step.lost import found_in
from chainrule.verify.script.step.numbers import Library, Moved, Site, Trial
from chainrule.verify.script.step.rerun import Rerun, lost_in
from chainrule.verify.script.step.terms import added_numbers
from chainrule.verify.script.step.trials import Going, followed

_AT = 1
"""The step after which recording begins; it ends with the next."""
_BACKWARDS = 16
"""Backward passes of that step that are looked at."""
WHAT = "one step as a whole"


class OneStep(Observer):
    """Records one step and looks for cuts in it; what depends on a library is left open here.

    Args:
        library: The library's tensors as constants.
        rerun: How its calls are made again.
    """

    def __init__(self, library: Library, rerun: type[Rerun]) -> None:
        self._library = library
        self._rerun = rerun
        self._step = Step()
        self._skipped: list[str] = []
        self._backwards = 0
        self._losses = 0
        self._sites: dict[Site, int] = {}
        """Where numbers leave that may come back into a loss (see `numbers.sites`)."""
        self._trial: Going | None = None
        """What this process tries, if it is a copy in which the script goes on."""
        self._since = self._seconds = 0.0
        self._trains = True
        """Whether the script trains by this library."""

    @property
    @abc.abstractmethod
    def _calls(self) -> Calls | None:
        """The tape, None if nothing was recorded."""

    @abc.abstractmethod
    def _begin(self) -> None:
        """Record from now on."""

    @abc.abstractmethod
    def _end(self) -> None:
        """Record no more."""

    @abc.abstractmethod
    def _is_whole(self) -> bool:
        """Whether what was recorded up to the end of a step is a whole one."""

    @abc.abstractmethod
    def _leaves(self, loss: Any) -> set[int]:
        """Ids of the leaves that a backward pass from `loss` reaches."""

    @abc.abstractmethod
    def _names(self) -> Mapping[int, str]:
        """Names of parameters, by their ids."""

    @abc.abstractmethod
    def _moved(self, trial: Trial) -> Moved:
        """What moves numbers on the tape of this process from now on, for a trial."""

    def step_done(self, step: int) -> None:
        """Record from the end of the first step to that of the second."""
        if step == _AT and self._calls is None:
            self._begin()
        elif step > _AT and self._is_whole():
            self._end()
            self._follow()

    def stop(self) -> None:
        """Record no more."""
        self._end()

    def _look(
        self, tape: Calls, losses: Sequence[Any], leaves: set[int] | None = None
    ) -> list[tuple[Slice, Any]]:
        """Before a backward pass: what does it not see? The parts that its losses depend on.

        `leaves`: ids of those that it may give a gradient, if these are not all that it reaches.
        """
        self._backwards += 1
        if self._trial is not None:
            self._trial.join()
        else:
            self._sites |= numbers.sites(tape, self._library)
        reached = {leaf for loss in losses for leaf in self._leaves(loss)}
        self._step.goes_back(reached if leaves is None else reached & leaves)
        parts: list[tuple[Slice, Any]] = []
        for loss in losses:
            slot = tape.slot(loss)
            self._losses += 1
            if slot is None or self._backwards > _BACKWARDS:
                continue
            part = Slice(tape, slot)
            parts.append((part, loss))
            self._compare(tape, part, loss)
            self._step.used |= part.used
        return parts

    def _compare(self, tape: Calls, part: Slice, loss: Any) -> None:
        """What a loss would give to parameters, were it not for cuts."""
        cuts = [c for c in part.cuts if not self._is_old(tape, c)]
        if self._trial is not None:
            cuts = self._trial.of_numbers(cuts)
        self._step.numbers += added_numbers(part)
        if cuts and math.prod(loss.shape) == 1:
            self._measure(part, cuts, loss)

    def _looked(self) -> None:
        """The look is over; a copy may have seen enough."""
        if self._trial is not None:
            self._trial.looked(self._step.seen, self._skipped)

    def _is_old(self, tape: Calls, cut: Cut) -> bool:
        """Whether the value's graph was used already, as at the start of a chunk of a sequence."""
        off = [e for i in cut.entries if (e := tape.entries[i]).name != NUMBER]
        last = off or [tape.entries[i] for i in cut.entries]
        return all(self._step.used.intersection(e.inputs) for e in last)

    def _measure(self, part: Slice, cuts: list[Cut], loss: Any) -> None:
        try:
            lost = apart(lambda: lost_in(self._rerun, part, cuts, loss))
        except LostError as error:
            where = ", ".join([str(c.place) for c in cuts])
            self._skipped.append(f"the cuts at {where} could not be measured: {error}")
            return
        turn, nth, names = self._step.turn, self._losses, self._names()
        pairs = zip(cuts, lost, strict=True)
        self._step.seen += [seen_of(part, cut, one, turn, nth, names) for cut, one in pairs]

    def _follow(self) -> None:
        """Let the script go on in copies, to see which numbers come back into a loss."""
        sites, self._sites = self._sites, {}
        if sites and not is_branch():
            rows, why = followed(sites, self._goes_on, self._seconds)
            self._step.seen += rows
            self._skipped += why

    def _goes_on(self, trial: Trial) -> None:
        """In a copy: record the next step as well, for a trial."""
        backwards = self._backwards
        self._step, self._skipped = Step(), []
        self._backwards = self._losses = 0
        self._begin()
        if self._calls is not None:
            self._trial = Going(self._moved(trial), backwards)

    def _began(self) -> None:
        self._since = perf_counter()

    def _ended(self) -> None:
        self._seconds = perf_counter() - self._since

    def _noted(self, ledger: Ledger, how: str, seconds: float) -> None:
        """Note in the ledger what was looked at, and what not."""
        ledger.skipped.extend([Skipped(WHAT, why) for why in self._skipped])
        if self._backwards:
            ledger.checked.append(Checked(WHAT, TRAINING, self._backwards, seconds, how))
        elif self._trains and not self._skipped:
            none = "no backward pass from one number was seen in the second step"
            why = "it takes two steps to see one" if self._calls is None else none
            ledger.skipped.append(Skipped(WHAT, why))

    def findings(self, ledger: Ledger) -> list[Finding]:
        """Cuts that cost a gradient."""
        self._noted(ledger, "calls of one step recorded, and what its cuts cost", 0.0)
        return found_in(self._step)
