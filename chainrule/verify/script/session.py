"""One observed run: observers, the clock that counts steps, and the one report at the end.

The script must never notice. So every call of an observer is guarded, what it raises is a line of
the ledger, and the observer is turned off; and nothing happens in copies that the script makes of
its process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger, Planted, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.patches import Patches
from chainrule.verify.reporting.report import Report
from chainrule.verify.script.byhand.index_sums import IndexSums
from chainrule.verify.script.byhand.loop_steps import Unoptimized
from chainrule.verify.script.byhand.pair_calls import StatedPairs
from chainrule.verify.script.clock import Steps, watch_torch
from chainrule.verify.script.known_formulas import FormulasOfLoops
from chainrule.verify.script.merged_findings import merge_findings
from chainrule.verify.script.native_clock import watch_native
from chainrule.verify.script.observers import Arrival, Makers
from chainrule.verify.script.sandbox import fork
from chainrule.verify.script.sandbox.fork import LostError, in_copy
from chainrule.verify.script.sandbox.quiet import calm, is_confined, reclaim
from chainrule.verify.script.trial_runs import Again, Uncompiled
from chainrule.verify.stopwatch import Stopwatch

LOOKED_FOR = (
    "looked for: a step of a torch.optim or chainrule.optim optimizer, a backward pass, "
    "chainrule's grad or value_and_grad of one function at other and other values, "
    "a call of a user's Function, a loop that changes its parameters itself, as `W -= lr * dW`, "
    "and computes or prints its loss, a class of numbers with operators and a backward() of their "
    "own, whose ops are verified; a layer or a function of NumPy's arrays and its backward, by "
    "their names; of others say chainrule.verify.pair(forward, backward, x)"
)
"""What would have been a training step."""
SPARE = 2.0
"""Seconds that the look at later steps may take, which only sees what costs little to see."""


class Stop(BaseException):
    """Ends a script after its report, where that was asked; no `except Exception` catches it."""


class Session:
    """Observes from `start` until `steps` steps are done or `finish` is called.

    What is only heard of (resets, numbers, modes) is looked at for up to `window` steps, as long as
    these take no more than `SPARE` seconds: a log that saturates, a layer that dies, a model that
    is replaced show late.

    Args:
        what: The script, as the user called it.
        steps: How many steps of training are observed.
        deliver: Is given the report, once.
        own: What makes the observers of chainrule's programs.
        torch: What makes the observers of PyTorch's, called when PyTorch was imported.
        stop: Whether `Stop` is raised in the script after the last observed step.
        again: How the script is run once more, to try corrections; None if it is not.
        compiled: How it is run once more to look at what it compiles; None if it is not.
        window: How many steps are looked at in all.
        waits: Is told when more steps than `steps` are looked at, and when that ends.
    """

    def __init__(
        self,
        what: str,
        steps: int,
        deliver: Callable[[Report], None],
        *,
        own: Makers = (),
        torch: Makers = (),
        stop: bool = False,
        again: Again | None = None,
        compiled: Uncompiled | None = None,
        since: Stopwatch | None = None,
        window: int = 0,
        waits: Callable[[bool], None] = lambda waits: None,
    ) -> None:
        self.what = what
        self.steps = steps
        self.ledger = Ledger()
        self.clock = Steps(self._step_done)
        self.report: Report | None = None
        self.seconds = 0.0
        """Spent on the report, in which the script stood still."""
        self._deliver = deliver
        self._stop = stop
        self._again = again
        self._compiled = compiled
        self._makers = {"own": own, "torch": torch}
        self._observers: list[Observer] = []
        self._patches = Patches()
        self._outer = Patches()  # what was put over the observers' own
        self._arrival = Arrival("torch", self._torch_arrives)
        self._pid = os.getpid()
        self._over = False
        self._since = since or Stopwatch()
        self._window = max(steps, window)
        self._waits = waits
        self._spare: Stopwatch | None = None

    @property
    def is_seen(self) -> bool:
        """Whether there was anything that could be verified."""
        return self.clock.has_seen_training or bool(self.ledger.checked)

    @property
    def missing(self) -> str:
        """What was not seen, if this was all."""
        done = self.clock.last
        if done >= self.steps:
            return ""
        if not self.clock.has_seen_training:
            return "no training step was seen"
        return f"the script ended after {done} of {self.steps} steps"

    def start(self) -> None:
        """Put everything in place."""
        fork.begin()
        self._guard("chainrule's observers", self._install_native)
        self._arrival.wait()

    def finish(self, why: str = "", code: int = 0) -> None:
        """Take everything away, check what was seen and deliver the report; once.

        `why`: for the ledger, why not all steps were seen. `code`: the script's exit code, if it
        has ended; with an error, nothing is tried but what may be the cause of it.
        """
        if fork.is_branch():
            fork.end()  # the script is over before the copy has seen what it was to see
        if self._over or os.getpid() != self._pid:
            return
        self._over = True
        seconds, watch = self._since.seconds, Stopwatch()
        self._arrival.leave()
        self._waits(False)
        if why:
            self.ledger.skipped.append(Skipped(self.what, why))
        self._outer.undo()
        for observer in reversed(self._observers):
            self._guard(_name(observer), observer.stop)
        self._patches.undo()
        self.report = report = Report(self.what, (), self.ledger)
        try:
            self._find(report)
            if self.clock.compiled and self._compiled is not None:
                self._guard("compiled steps", lambda: self._look(report, seconds))
            if self.is_seen and self.ledger.planted is None and not is_confined():
                self._guard("the planted gradient", self._plant)
            self._guard("corrections", lambda: self._try(report, seconds, code))
        except KeyboardInterrupt:
            self.ledger.skipped.append(Skipped(self.what, "interrupted while it was checked"))
            raise
        finally:
            self._guard("memory", reclaim)  # no more copies are made
            self.seconds = watch.passed
            self._observers.clear()
            self._guard("the report", lambda: self._deliver(report))

    def _find(self, report: Report) -> None:
        found: list[Finding] = []
        for observer in self._observers:
            with calm():
                self._guard(
                    _name(observer), lambda o=observer: found.extend(o.findings(self.ledger))
                )
            report.findings = tuple(merge_findings(found))

    def _look(self, report: Report, seconds: float) -> None:
        """See what compiled steps do where they run in Python; made-up values tell less."""
        assert self._compiled is not None
        names = self.clock.compiled
        try:
            found, ledger = self._compiled.seen(names, seconds)
        except LostError as error:
            why = f"it is compiled, and what it does was not looked at: {error}"
            self.ledger.skipped += [Skipped(name, why) for name in names]
        else:
            report.findings, report.ledger, self.ledger = (
                tuple(merge_findings(found)),
                ledger,
                ledger,
            )

    def _try(self, report: Report, seconds: float, code: int) -> None:
        if self._again is not None:
            with calm():
                tried = self._again.tried(report.findings, self.ledger, seconds, code)
            report.findings = tuple(tried)

    def _plant(self) -> None:

        with calm():
            self.ledger.planted = in_copy(planted_gradient)

    def _install_native(self) -> None:
        watch_steps = watch_native(self.clock, self._patches)
        self._install("own")
        if self._makers["own"]:
            self._guard(
                "steps by hand",
                lambda: self._start(self._by_hand()),
            )
        watch_steps(self._outer)

    def _by_hand(self) -> list[Observer]:
        clock = self.clock
        return [StatedPairs(), IndexSums(), Unoptimized(clock), FormulasOfLoops(clock)]

    def _torch_arrives(self) -> None:
        self._guard("PyTorch's observers", self._install_torch)

    def _install_torch(self) -> None:
        if os.getpid() == self._pid and not self._over:
            watch_torch(self.clock, self._patches)
            self._install("torch")

    def _install(self, kind: str) -> None:
        for make in self._makers[kind]:
            self._guard(f"{kind} observers", lambda m=make: self._start(m()))

    def _start(self, observers: Sequence[Observer]) -> None:
        for observer in observers:
            if self._guard(_name(observer), observer.start):
                self._observers.append(observer)

    def _step_done(self, step: int) -> None:
        if self._over or os.getpid() != self._pid:
            return
        for observer in list(self._observers):
            if not self._guard(_name(observer), lambda o=observer: o.step_done(step)):
                self._observers.remove(observer)
                self._guard(_name(observer), observer.stop)
        if step >= self.steps and self._has_seen_enough(step):
            self.finish()
            if self._stop:
                raise Stop

    def _has_seen_enough(self, step: int) -> bool:
        """Whether a step, of those after the full look, is the last one."""
        if self._spare is None:
            self._spare = Stopwatch()
            self._waits(self._window > step)
        return step >= self._window or self._spare.is_over(SPARE)

    def _guard(self, who: str, run: Callable[[], object]) -> bool:
        """Whether `run` ended well; otherwise the ledger says why not."""
        try:
            run()
        except Exception as error:
            why = f"the verifier itself failed: {type(error).__name__}: {error}"
            self.ledger.skipped.append(Skipped(who, why))
            return False
        return True


def _name(observer: Observer) -> str:
    return type(observer).__name__


_SEED = 5


def planted_gradient() -> Planted:
    """Whether a spoiled gradient of `exp(a) * b` is caught, here and now."""
    from chainrule.engine.tensors import Tensor, tensor
    from chainrule.ops.elementwise import exp
    from chainrule.verify.measure import plant
    from chainrule.verify.own.call import subject_of_call

    def small(a: Tensor, b: Tensor) -> Tensor:
        return exp(a) * b

    random = np.random.default_rng(_SEED)
    args = [tensor(random.normal(size=(4, 3))) for _ in range(2)]
    found = plant.planted(subject_of_call(small, args, name="exp(a) * b"))
    return replace(found, what=f"{found.what}, of our own since none of yours could be spoiled")
