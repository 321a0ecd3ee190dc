"""`examine`: measure a subject. Cheap things first; what costs much only after something failed."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from time import perf_counter

import numpy as np

from chainrule.verify.evidence import NOTES, Evidence
from chainrule.verify.measure import (
    absent,
    conduct,
    cotangents,
    meant,
    oblong,
    points,
    precision,
    shrink,
    sizes,
)
from chainrule.verify.measure.beyond import is_beyond
from chainrule.verify.measure.noise import Base, based, vanished
from chainrule.verify.measure.probes import Probe, probe
from chainrule.verify.measure.run import (
    BackwardError,
    LateError,
    Point,
    Run,
    UnusableError,
    inexact,
    said,
)
from chainrule.verify.subject import Subject, values

SECONDS = 10.0
"""After so long, points besides the captured one are left out."""
LARGE = 500_000
"""Elements of a point at which small elements are not looked for any more."""
_AGAIN = 1e-6
"""Runs may differ by rounding: sums go in another order where memory is aligned differently."""


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
        evidence.skipped.append(("the rest", f"the verifier failed with {said(error)}"))
    _settled(evidence)
    evidence.seconds = perf_counter() - start
    return evidence


def _settled(evidence: Evidence) -> None:
    """Trials none of which could tell are no check: they go, and it is said that there was none."""
    if evidence.behaviours or any(t.verdict != "unsure" for t in evidence.trials):
        return
    if evidence.trials:
        evidence.trials.clear()
        evidence.skipped.append(("everything", "the numbers are too bad to tell at every point"))
    elif not evidence.skipped:
        evidence.skipped.append(("everything", "there was nothing to compare"))


def captured(run: Run) -> Base:
    """The captured point, in float64 if the subject runs in it, in its own dtypes otherwise.

    `UnusableError` if its forward fails, or is random for itself.
    """
    exact = Point("as captured", values(run.subject, np.float64), "captured")
    own = Point("as captured", values(run.subject), "captured")
    try:
        base = based(run, exact)
        if _raises(run, base) and not _raises(run, based(run, own)):
            raise UnusableError("the backward does not run in float64")
    except UnusableError as error:
        run.skip("float64", str(error))
        base = based(run, own)
    again = run.forward(base.xs)
    for y, z, dtype in zip(base.ys, again, base.dtypes, strict=True):
        if inexact(np.empty(0, dtype)) and conduct.apart(y, z) > _AGAIN:
            raise UnusableError(
                "the forward gives other results when it is run again: it is random"
            )
    return base


def _raises(run: Run, base: Base) -> bool:
    gs = [
        np.ones(y.shape, d if d.kind in "fcV" else float)
        for y, d in zip(base.ys, base.dtypes, strict=False)
    ]
    try:
        run.pull(base.xs, gs)
    except BackwardError:
        return True
    return False


def around(run: Run, base: Base, thorough: bool) -> list[tuple[Base, Probe]]:
    """Probe at a point, and again off its kinks where it is full of them."""
    seen = [(base, probe(run, base, thorough))]
    run.note(*seen[0][1].trials)
    if seen[0][1].kinked:
        try:
            beside = based(run, points.nearby(run, base.point))
            seen.append((beside, probe(run, beside, thorough)))
            run.note(*seen[1][1].trials)
        except UnusableError as error:
            run.skip(f"a point off the kinks of: {base.point.name}", str(error))
    return seen


class _Examination:
    """The order in which things are looked at."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.start = perf_counter()
        self.seen: list[tuple[Base, Probe]] = []

    def all(self) -> None:
        """Look at everything that makes sense; what fails in here does not stop the rest."""
        run = self.run
        if not run.wanted:
            run.skip("gradients", "no input needs one")
            return
        base = captured(run)
        if not conduct.sound(run, base):
            return
        steady = True
        with self._guarded("the backward's conduct"):
            steady = conduct.twice(run, base)
            if steady:
                conduct.linear(run, base)
        with self._guarded("the captured point"):
            self._captured(base)
        with self._guarded("layouts of cotangents"):
            if steady and not self._wrong():
                conduct.layouts(run, base)
        if steady:
            with self._guarded("other points"):
                self._varied(base)
            with self._guarded("the captured dtype"):
                if not self._wrong():
                    precision.compare(run, base)
        with self._guarded("Jacobians"):
            shrink.jacobians(run, [(b, run.wrong_at(b.point.name)) for b, _ in self.seen])

    @contextmanager
    def _guarded(self, what: str) -> Generator[None]:
        try:
            yield
        except (LateError, UnusableError) as error:
            self.run.skip(what, str(error))
        except Exception as error:
            self.run.skip(what, f"the verifier failed with {said(error)}")

    def _captured(self, base: Base) -> None:
        elements = sum([np.size(v) for v in (*base.xs, *base.ys)])
        self.seen += around(self.run, base, thorough=elements < LARGE)
        for at, found in self.seen:
            absent.dropped(self.run, found)
            absent.infinite(self.run, at, found)

    def _wrong(self) -> bool:
        evidence = self.run.evidence
        told = [b for b in evidence.behaviours if b.code not in NOTES]
        return bool(told) or any(t.verdict == "wrong" for t in evidence.trials)

    def _varied(self, base: Base) -> None:
        """Other sizes, then other values: at a small size, if there is one, for they are many."""
        right = not self._wrong()
        small = self._sizes(base, right)
        for point in points.varied(self.run, small.point, base.point):
            self._elsewhere(point, "one_sided" if point.kind == "sign" else "region", right)

    def _sizes(self, base: Base, right: bool) -> Base:
        """Try two other sizes; the smallest point at which all is as it was."""
        run, found = self.run, [base]
        if run.subject.fixed:
            run.skip("other sizes", run.subject.fixed)
            return base
        tried = False
        for point in sizes.others(run, base):
            tried = True
            other = self._elsewhere(point, "size", right)
            found += [] if other is None else [other]
            if self._late():
                break
        if not tried:
            run.skip("other sizes", "the forward works at none that was tried")
        smallest = min(found, key=lambda b: sum([y.size for y in b.ys]))
        for point in oblong.points(run, smallest):
            self._elsewhere(point, "size", right)
        return smallest

    def _late(self) -> bool:
        if perf_counter() - self.start < SECONDS:
            return False
        self.run.skip("more points", f"it took more than {SECONDS:.0f} s so far")
        return True

    def _elsewhere(self, point: Point, code: str, right: bool) -> Base | None:
        """Probe at another point, off its kinks if it is full of them: the point that was used.

        What is wrong there and right at the captured one behaves as `code` says.
        """
        run = self.run
        if self._late():
            return None
        try:
            base = based(run, point)
            usual = self.seen[0][0] if self.seen else base
            seen = around(run, vanished(base, usual), thorough=False)
        except BackwardError as error:
            if _says_how_many(error):
                run.skip(point.name, f"the backward takes a fixed number of parts: {error}")
            elif right and code == "size" and self._is_meant(point):
                says = f"{point.name}: the backward raises {error}, the forward works"
                run.behaves(code, None, says, point=point.name, error=str(error))
            return None
        except UnusableError as error:
            run.skip(point.name, str(error))
            return None
        self.seen += seen
        odd = any(found.wrong or found.misshaped for _, found in seen)
        if right and odd and code == "size" and not self._is_meant(point):
            self._unmeant(seen)
            return None
        if right:
            for base, found in seen:
                self._told(base, found, code)
        return seen[-1][0]

    def _is_meant(self, point: Point) -> bool:
        """Whether a backward has to be right at other sizes, those of a point. Of other proportions
        it was asked before."""
        if point.kind == "aspect":
            return True
        first = self.seen[0][0] if self.seen else None
        if self._is_right_at_multiples:
            return False
        return first is None or all(
            asked(self.run, first, point) for asked in (meant.confirmed, meant.read)
        )

    def _unmeant(self, seen: Sequence[tuple[Base, Probe]]) -> None:
        """Sizes at which something is wrong, and for which nobody may have made the backward."""
        for base, found in seen:
            point = base.point.name
            for k in {*found.wrong, *found.misshaped}:
                if self._is_right_at_multiples:
                    says = f"right at multiples of the captured sizes, wrong at {point}"
                    self.run.behaves("lengths", k, says, point=point)
                else:
                    self.run.skip(point, "the forward works there, and nowhere near, by chance")
                self.run.doubt(point, k)

    @cached_property
    def _is_right_at_multiples(self) -> bool:
        """Whether all is right at a multiple of the captured sizes. What is wrong at other ones is
        then made for lengths of a kind (odd ones, those of four gates); that the forward takes
        others as well is by chance."""
        if not self.seen:
            return False
        first, _ = self.seen[0]
        for point in sizes.multiples(self.run, first):
            try:
                found = probe(self.run, vanished(based(self.run, point), first), thorough=False)
            except UnusableError:
                continue
            checked = any(t.verdict == "right" for t in found.trials)
            return checked and not found.wrong and not found.misshaped
        return False

    def _told(self, base: Base, found: Probe, code: str) -> None:
        """Say what is wrong at a point, the captured one being right."""
        run, point = self.run, base.point
        # Without code of its own a subject may hold sizes that nobody sees, as ops do.
        written = run.subject.source is not None and code == "size"
        for k, shape in found.misshaped.items() if written else ():
            says = f"at {point.name} the gradient has shape {shape}"
            run.behaves(code, k, says, point=point.name, got=shape, expected=base.xs[k].shape)
        for k in found.wrong:
            if (code == "one_sided" and is_beyond(self.seen[0][1], found, k)) or self._derived(
                base, k
            ):
                run.doubt(point.name, k)
                continue
            trial = next(t for t in found.trials if t.input == k and t.verdict == "wrong")
            says = f"right as captured, off by {trial.error:.2g} of its size at: {trial.point}"
            run.behaves(code, k, says, point=trial.point, error=trial.error)

    def _derived(self, base: Base, k: int) -> bool:
        """Whether who derives the forward's own code gets the same gradient: at ties and zeros that
        is a convention for each op (sign(0) = 0), even where the whole has a derivative."""
        gs = cotangents.random(self.run, base)
        try:
            theirs, mine = self.run.subject.derived(base.xs, gs), self.run.pull(base.xs, gs)
        except Exception:  # as the user's code raises it
            return False
        return theirs is not None and conduct.apart(theirs[k], mine[k]) < _AGAIN


def _says_how_many(error: BackwardError) -> bool:
    """Whether the backward has taken apart what has so many parts by what it is: `w, x, y, z = q`
    is no size that was forgotten, and is never wrong without a word."""
    return "values to unpack" in str(error)
