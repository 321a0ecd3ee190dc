"""Run a training script as Python would, under observation.

The script runs in this process, as `__main__`, with its own arguments. It is observed for its first
few steps. When the last of these is done, what was seen is checked and reported, every hook is
taken away, and the script runs on to its own end. One that trains one thing after another has
`Phases` (`phases.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from chainrule.verify.place import Place
from chainrule.verify.reporting.report import Report, joined
from chainrule.verify.script.observers import Makers
from chainrule.verify.script.phases import MOST, Phases
from chainrule.verify.script.session import Session, Stop
from chainrule.verify.script.target import Target, as_main
from chainrule.verify.script.trial_runs import Again, Codes, Seen, Uncompiled, codes, uncompiled
from chainrule.verify.stopwatch import Stopwatch

_HERE = str(Path(__file__).parents[1])
"""The verifier's own files: its frames are in no traceback that a script shows."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run came to."""

    code: int
    """The script's own exit code."""
    report: Report
    """On all phases."""
    phases: tuple[Report, ...]
    """On each of them (see `Phases`)."""
    is_seen: bool
    """Whether there was any training, or anything else that could be verified."""
    seconds: float
    """How long the script stood still for the report."""


def run(
    target: Target,
    args: Sequence[str] = (),
    *,
    steps: int = 3,
    stop: bool = False,
    phase: int = 1,
    deliver: Callable[[Report], None] = lambda report: None,
    own: Makers = (),
    torch: Makers = (),
    loop: tuple[Makers, Makers] = ((), ()),
    window: int = 0,
    late: bool = True,
) -> Outcome:
    """Run `target` and report on it.

    Args:
        target: What to run.
        args: Its command line.
        steps: How many training steps to observe.
        stop: Whether the script ends after the report.
        phase: After the report on which phase, then.
        deliver: Is given the report on each phase as soon as it is there.
        own: What makes the observers for chainrule's programs (see `Session`).
        torch: What makes those for PyTorch's.
        loop: The ones of both that look at training loops. If there are any, corrections of the
            loop are tried: the changed script is run once more (see `Again`).
        window: How many steps are looked at for what shows late (see `Session`).
        late: Whether a phase may begin late (see `Phases`).
    """
    way = _Way(target, args, steps, own, torch, loop, window)

    def session(number: int, at: Place | None, ended: Callable[[Report], None]) -> Session:
        return way.session(number, at, ended, stop and number == phase, phases)

    phases = Phases(session, deliver, phase if stop else MOST, late)
    with as_main(target, args) as namespace:
        phases.begin()
        code = _execute(target, namespace)
        phases.end(phases.last.missing, code)
        sys.stdout.flush()
    report = joined(target.name, phases.reports)
    is_seen = any(s.is_seen for s in phases.sessions)
    seconds = sum([s.seconds for s in phases.sessions])
    return Outcome(code, report, tuple(phases.reports), is_seen, seconds)


@dataclass(frozen=True)
class _Way:
    """How a script is run, and run once more; see `run`."""

    target: Target
    args: Sequence[str]
    steps: int
    own: Makers
    torch: Makers
    loop: tuple[Makers, Makers]
    window: int = 0
    since: Stopwatch = field(default_factory=Stopwatch)

    def session(
        self,
        number: int,
        at: Place | None,
        ended: Callable[[Report], None],
        stop: bool,
        phases: Phases,
    ) -> Session:
        """That of a phase, which begins with an optimizer made, or values loaded, `at` a place."""
        late = phases.has_late

        def once_more(edited: Target) -> tuple[int, Codes]:
            steps = max(self.steps, made.clock.last)  # what showed late shows as late again
            with uncompiled():
                outcome = replace(self, steps=steps)._rerun(edited, number, *self.loop, late)
            return _code(outcome, number), codes(outcome.phases[-1].findings)

        def in_python() -> Seen:
            outcome = self._rerun(self.target, number, self.own, self.torch, late)
            found = outcome.phases[-1]
            return _code(outcome, number), found.findings, found.ledger

        name = self.target.name
        what = name if at is None else f"{name} from line {at.line} on"
        again = Again(self.target, once_more) if any(self.loop) else None
        made = Session(
            what, self.steps, ended, own=self.own, torch=self.torch, stop=stop,
            since=self.since, again=again, compiled=Uncompiled(in_python), window=self.window,
            waits=phases.waits,
        )  # fmt: skip
        return made

    def _rerun(
        self, target: Target, phase: int, own: Makers, torch: Makers, late: bool
    ) -> Outcome:  # fmt: skip
        return run(
            target, self.args, steps=self.steps, stop=True, phase=phase, own=own, torch=torch,
            late=late,
        )  # fmt: skip


def _code(outcome: Outcome, phase: int) -> int:
    """The exit code of a run up to a phase; 2 if that never came: what trains no more has no
    mistake in it either."""
    is_there = outcome.is_seen and len(outcome.phases) >= phase
    return outcome.code or (0 if is_there else 2)


def _execute(target: Target, namespace: dict[str, Any]) -> int:
    """Run the code; its exit code. What it raises is shown as Python shows it."""
    try:
        exec(target.code, namespace)
    except Stop:
        return 0
    except SystemExit as ending:
        return _exit_code(ending.code)
    except BaseException as error:
        _show(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _exit_code(code: Any) -> int:
    """As Python's own: None is 0, a number is itself, anything else is printed and is 1."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stdout.flush()
    sys.stderr.write(f"{code}\n")
    return 1


def _show(error: BaseException) -> None:
    """Print the traceback by the script's own hook, without frames of ours."""
    sys.stdout.flush()
    _clean(error, set())
    sys.excepthook(type(error), error, error.__traceback__)


def _clean(error: BaseException, seen: set[int]) -> None:
    if id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = _users_traceback(error.__traceback__)
    for other in (error.__cause__, error.__context__):
        if other is not None:
            _clean(other, seen)


def _users_traceback(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of the verifier."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_HERE):
            kept.append(trace)
        trace = trace.tb_next
    for one, following in zip(kept, [*kept[1:], None], strict=True):
        one.tb_next = following
    return kept[0] if kept else None
