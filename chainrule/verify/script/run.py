"""Run a training script as Python would, under observation.

The script runs in this process, as `__main__`, with its own arguments. It is observed for its first
few steps. When the last of these is done, what was seen is checked and reported, every hook is
taken away, and the script runs on to its own end. One that trains one thing after another (a
teacher and then its student, a body and then a head) has `Phases`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, final

from chainrule.verify.patches import Patches
from chainrule.verify.place import Place
from chainrule.verify.reporting.report import Report, joined
from chainrule.verify.script.clock import Origin, listed, shapes_of
from chainrule.verify.script.observers import Makers
from chainrule.verify.script.session import Session, Stop
from chainrule.verify.script.target import Target, as_main
from chainrule.verify.script.trial_runs import Again, Codes, Seen, Uncompiled, codes, uncompiled
from chainrule.verify.stopwatch import Stopwatch
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
        loads: Whether one may begin where values are loaded into a model.
    """

    def __init__(
        self,
        make: Callable[[int, Place | None, Callable[[Report], None]], Session],
        deliver: Callable[[Report], None],
        most: int = MOST,
        loads: bool = True,
    ) -> None:
        self._make = make
        self._deliver = deliver
        self._most = most
        self._patches = Patches()
        self._made: set[Origin] = set()
        self._loads = loads
        self._loaded = set[Line]()
        self.has_loads = False
        """Whether one has begun so."""
        self._pid = os.getpid()
        self._is_over = False
        self.sessions: list[Session] = []
        self.reports: list[Report] = []

    @property
    def last(self) -> Session:
        """The session that is running, or the last one that ran."""
        return self.sessions[-1]

    def begin(self, at: Place | None = None, is_load: bool = False) -> None:
        """The next phase begins."""
        self.has_loads |= is_load
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
        self._loaded |= self.last.clock.loaded_at
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
        if self._loads and "torch.nn" in sys.modules:
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
        at, is_over = here(), self.last.report is not None
        is_new = at is not None and at not in self._loaded and os.getpid() == self._pid
        if is_over and at is not None and is_new:
            self._loaded.add(at)
            self._patches.undo()
            self.begin(placed(at), is_load=True)
            load = kind.load_state_dict  # as the new session watches it
        return load(module, *args, **kwargs)

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
    loads: bool = True,
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
        loads: Whether a phase may begin where values are loaded (see `Phases`).
    """
    way = _Way(target, args, steps, own, torch, loop, window)

    def session(number: int, at: Place | None, ended: Callable[[Report], None]) -> Session:
        return way.session(number, at, ended, stop and number == phase, phases)

    phases = Phases(session, deliver, phase if stop else MOST, loads)
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
        loads = phases.has_loads

        def once_more(edited: Target) -> tuple[int, Codes]:
            steps = max(self.steps, made.clock.last)  # what showed late shows as late again
            with uncompiled():
                outcome = replace(self, steps=steps)._rerun(edited, number, *self.loop, loads)
            return _code(outcome, number), codes(outcome.phases[-1].findings)

        def in_python() -> Seen:
            outcome = self._rerun(self.target, number, self.own, self.torch, loads)
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
        self, target: Target, phase: int, own: Makers, torch: Makers, loads: bool
    ) -> Outcome:  # fmt: skip
        return run(
            target, self.args, steps=self.steps, stop=True, phase=phase, own=own, torch=torch,
            loads=loads,
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
