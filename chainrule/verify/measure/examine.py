"""`examine`: measure a subject. Cheap things first; what costs much only after something failed."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from math import prod
from time import perf_counter

import numpy as np

from chainrule.verify.evidence import Evidence
from chainrule.verify.measure import precision, self_comparison, shrink
from chainrule.verify.measure.captured_point import captured_base, probe_around
from chainrule.verify.measure.noise import Base, base_at
from chainrule.verify.measure.numeric import slopes
from chainrule.verify.measure.points.other_points import OtherPoints
from chainrule.verify.measure.points.values import telling_point
from chainrule.verify.measure.probes import Probe
from chainrule.verify.measure.run import BackwardError, LateError, Run, UnusableError, in_one_line
from chainrule.verify.stopwatch import Stopwatch
from chainrule.verify.subject import Array, Subject, extent

LARGE = 500_000
"""Elements of a point at which small elements are not looked for any more."""


def examine(subject: Subject) -> Evidence:
    """All that can be measured of a subject.

    Never raises: what could not be looked at is noted as skipped, with its reason.
    """
    evidence = Evidence(subject)
    start = perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _Examination(Run(subject, evidence)).all()
    except (LateError, UnusableError) as error:
        evidence.skipped.append(("everything", str(error)))
    except Exception as error:
        evidence.skipped.append(("the rest", f"the verifier failed with {in_one_line(error)}"))
    _settle(evidence)
    evidence.seconds = perf_counter() - start
    return evidence


def _settle(evidence: Evidence) -> None:
    """Trials none of which could tell are no check: they go, and it is said that there was none."""
    if evidence.behaviours or any(t.verdict != "unsure" for t in evidence.trials):
        return
    if evidence.trials:
        evidence.trials.clear()
        evidence.skipped.append(("everything", "the numbers are too bad to tell at every point"))
    elif not evidence.skipped:
        evidence.skipped.append(("everything", "there was nothing to compare"))


class _Examination:
    """The order in which things are looked at."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.watch = Stopwatch()
        self.seen: list[tuple[Base, Probe]] = []

    def all(self) -> None:
        """Look at everything that makes sense; what fails in here does not stop the rest."""
        run = self.run
        if not run.wanted:
            run.skip("gradients", "no input needs one")
            return
        base = captured_base(run)
        if not self_comparison.check_runs(run, base):
            return
        steady = True
        with self._guarded("the backward's conduct"):
            steady = self_comparison.check_repeatable(run, base)
            if steady:
                self_comparison.check_linear(run, base)
        with self._guarded("the captured point"):
            self._captured(base)
        with self._guarded("a second call"):
            if steady and not run.evidence.is_off:
                steady = self_comparison.check_second_call(run, base)
        with self._guarded("layouts of cotangents"):
            if steady and not run.evidence.wrong:
                self_comparison.check_layouts(run, base)
        if steady:
            with self._guarded("other points"):
                usual = base if run.evidence.wrong else self._telling(base)
                OtherPoints(run, self.seen, self.watch).visit(usual, not run.evidence.wrong)
            with self._guarded("the captured dtype"):
                if not run.evidence.wrong:
                    precision.compare(run, base)
        with self._guarded("a call after another one"):
            if steady and not run.evidence.is_off:
                self_comparison.check_after_other_call(run, base)
        with self._guarded("Jacobians"):
            shrink.jacobians(run, [(b, run.wrong_at(b.point.name)) for b, _ in self.seen])

    @contextmanager
    def _guarded(self, what: str) -> Generator[None]:
        try:
            yield
        except (LateError, UnusableError) as error:
            self.run.skip(what, str(error))
        except Exception as error:
            self.run.skip(what, f"the verifier failed with {in_one_line(error)}")

    def _telling(self, base: Base) -> Base:
        """The point with other numbers for inputs that are 0 or 1, once it is looked at; itself
        without such inputs, or where the forward takes nothing else."""
        if (point := telling_point(self.run, base.point)) is None:
            return base
        try:
            other = base_at(self.run, point)
            self.seen += probe_around(self.run, other, thorough=False)
        except (UnusableError, BackwardError) as error:
            self.run.skip(point.name, str(error))
            return base
        return other

    def _captured(self, base: Base) -> None:
        elements = sum([prod(extent(v)) for v in (*base.xs, *base.ys)])
        self.seen += probe_around(self.run, base, thorough=elements < LARGE)
        for at, found in self.seen:
            note_dropped(self.run, found)
            note_infinite(self.run, at, found)


def note_dropped(run: Run, found: Probe) -> None:
    """Note inputs that get nothing though the outputs depend on them."""
    for k in found.wrong:
        bar = found.bars[k]
        if bar is None or not bar.any():
            says = "None" if bar is None else "zeros"
            run.behaves("dropped", k, f"the backward gives {says}, the derivative is not 0")


def note_infinite(run: Run, base: Base, found: Probe) -> None:
    """Note gradients with NaN or infinity where the forward is smooth."""
    for k, t in found.tangents.items():
        bar = found.bars[k] if found.bars else None
        if bar is None or bar.shape != t.shape or np.isfinite(bar).all():
            continue
        bad: Array = ~np.isfinite(bar)
        along = slopes(run, base, {k: t * bad})
        if all(s.resolved.all() and not s.jump.any() for s in along):
            count = int(bad.sum())
            says = f"{count} of {bad.size} elements are NaN or infinite; the derivative is finite"
            run.behaves("nan", k, says, count=count, point=base.point.name)
