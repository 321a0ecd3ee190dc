"""A step made again in copies of the process, with the numbers of one line moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from chainrule.verify.script.sandbox import fork
from chainrule.verify.script.sandbox.fork import LostError
from chainrule.verify.script.step.cuts.costs import CutCost
from chainrule.verify.script.step.cuts.moved_numbers import BY, Moved, Site, Trial, constants_of
from chainrule.verify.script.step.cuts.slices import Cut
from chainrule.verify.script.step.record.tape import NUMBER

LONG = 5.0
"""Seconds of a step that is not made again."""
PATIENCE = 60.0
"""Seconds after which a copy is given up."""


class _InCopyError(Exception):
    """Leads out of `follow_numbers` in a copy."""


def follow_numbers(
    sites: Mapping[Site, int], goes_on: Callable[[Trial], None], seconds: float
) -> tuple[list[CutCost], list[str]]:
    """Cuts at these sites, at which numbers leave, in the step that begins now; and what was not
    tried, and why. The last step took so many `seconds`.

    In each copy `goes_on` is called, and the script goes on.
    """
    where = ", ".join([f"{site[0][0]}:{site[0][1]}" for site in sites])
    unfit = fork.reason_not_to_branch() if seconds < LONG else f"the step took {seconds:.0f} s"
    if unfit:
        return [], [f"numbers that leave at {where} were not followed: {unfit}"]
    first, found, skipped = min(sites.values()), list[CutCost](), list[str]()

    def tried(trial: Trial) -> Any:
        sent = fork.branch_off(PATIENCE)
        if sent is fork.HERE:
            goes_on(trial)
            raise _InCopyError
        return sent

    try:
        as_is = tried(Trial((), 0.0, first))
        for site in sites:
            other = tried(Trial(site, BY, first))
            if _differ(as_is, other):
                rows, why = tried(Trial(site, -BY, first, (as_is, other)))
                found += rows
                skipped += why
    except LostError as error:
        skipped.append(f"numbers that leave at {where} were not followed: {error}")
    except _InCopyError:
        pass
    return found, skipped


def _differ(a: Any, b: Any) -> bool:
    """Whether any constant is another one."""
    rows = zip(a, b, strict=False)
    pairs = [pair for (_, xs), (_, ys) in rows for pair in zip(xs, ys, strict=False)]
    return any(x.shape == y.shape and (x != y).any() for x, y in pairs)


@final
class Going:
    """What goes on in a copy: its trial, until so many `backwards` have begun."""

    def __init__(self, moved: Moved, backwards: int) -> None:
        self._moved = moved
        self._left = backwards

    def join(self) -> None:
        """Before a backward pass: put on the tape what the numbers became, where it is known."""
        if self._moved.trial.before:
            self._moved.join()

    def of_numbers(self, cuts: Sequence[Cut]) -> list[Cut]:
        """Those of the cuts at which numbers leave."""
        return [c for c in cuts if any(e.name == NUMBER for e in c.entries)]

    def looked(self, found: Sequence[CutCost], skipped: Sequence[str]) -> None:
        """A backward pass was looked at; after the last one, send what was seen, and what not."""
        self._left -= 1
        if not self._left:
            m = self._moved
            if m.trial.before:
                fork.send((found, skipped))
            fork.send(constants_of(m.tape, m.trial.first, m.tensors))
