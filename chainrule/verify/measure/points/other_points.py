"""The same at other points: sizes, proportions and values for which a backward has to be right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

from chainrule.verify.measure import cotangents, self_comparison
from chainrule.verify.measure.captured_point import probe_around
from chainrule.verify.measure.noise import Base, base_at, with_vanished_outputs
from chainrule.verify.measure.points import intended_sizes, proportions, sizes, values, windows
from chainrule.verify.measure.points.intended_sizes import is_beyond, settles
from chainrule.verify.measure.probes import Probe, probe
from chainrule.verify.measure.run import BackwardError, Point, Run, UnusableError
from chainrule.verify.stopwatch import Stopwatch
from chainrule.verify.tolerances import SAME

SECONDS = 10.0
"""After so long, points besides the captured one are left out."""


class OtherPoints:
    """What is wrong at other points, beside what was seen at the captured one."""

    def __init__(self, run: Run, seen: list[tuple[Base, Probe]], watch: Stopwatch) -> None:
        self.run, self.seen, self.watch = run, seen, watch

    def visit(self, base: Base, right: bool) -> None:
        """Other sizes, then other values: at a small size, if there is one, for they are many.
        `right`: whether nothing was wrong so far."""
        small = self._sizes(base, right)
        if self.run.subject.only_here:
            self.run.skip("other values", self.run.subject.only_here)
            return
        for point in values.varied_points(self.run, small.point, base.point):
            self._elsewhere(point, "one_sided" if point.kind == "sign" else "region", right)

    def _sizes(self, base: Base, right: bool) -> Base:
        """Try two other sizes; the smallest point at which all is as it was."""
        run, found = self.run, [base]
        if run.subject.fixed:
            run.skip("other sizes", run.subject.fixed)
            return base
        for why in dict.fromkeys(run.subject.own_sizes.values()):
            run.skip("some other sizes", why)
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
        made = (windows.points(run, base), windows.blocks(run, base))
        for point in itertools.chain(proportions.points(run, smallest), *made):
            self._elsewhere(point, "size", right)
        return smallest

    def _late(self) -> bool:
        if not self.watch.is_over(SECONDS):
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
            base = base_at(run, point)
            usual = self.seen[0][0] if self.seen else base
            seen = probe_around(run, with_vanished_outputs(base, usual), thorough=False)
        except BackwardError as error:
            if _says_how_many(error):
                run.skip(point.name, f"the backward takes a fixed number of parts: {error}")
            elif right and point.kind == "size" and self._is_meant(point):
                says = f"{point.name}: the backward raises {error}, the forward works"
                run.behaves(code, None, says, point=point.name, error=str(error))
            return None
        except UnusableError as error:
            run.skip(point.name, str(error))
            return None
        self.seen += seen
        judged = point.judged if point.judged is not None else {*run.wanted}
        for b, found in seen:
            for k in {*found.wrong} - judged:
                run.doubt(b.point.name, k)
        odd = any(found.wrong or found.misshaped for _, found in seen)
        if right and odd and code == "size" and not self._is_meant(point):
            self._unmeant(seen)
            return None
        if right:
            for base, found in seen:
                self._told(base, found, code)
        # Where a size is what is wrong, other values at that size say nothing of their own.
        return None if right and odd and code == "size" else seen[-1][0]

    def _is_meant(self, point: Point) -> bool:
        """Whether a backward has to be right at other sizes, those of a point. Of other proportions
        and of what windows leave out it was asked before."""
        if point.kind in ("aspect", "remainder"):
            return True
        first = self.seen[0][0] if self.seen else None
        if self._is_right_at_multiples:
            return False
        reasons = (intended_sizes.read, intended_sizes.padded_alike)
        return first is None or all(asked(self.run, first, point) for asked in reasons)

    def _unmeant(self, seen: Sequence[tuple[Base, Probe]]) -> None:
        """Sizes at which something is wrong, and for which nobody may have made the backward."""
        for base, found in seen:
            point = base.point.name
            for k in {*found.wrong, *found.misshaped}:
                if self._is_right_at_multiples:
                    says = f"right at multiples of the captured sizes, wrong at {point}"
                    self.run.behaves("lengths", k, says, point=point)
                else:
                    self.run.skip(point, "that the forward works there is by chance")
                self.run.doubt(point, k)

    @cached_property
    def _is_right_at_multiples(self) -> bool:
        """Whether all is right at a multiple of the captured sizes. What is wrong at other ones is
        then made for lengths of a kind (odd ones, those of four gates); that the forward takes
        others as well is by chance."""
        if not self.seen or intended_sizes.leaves_remainder(self.run):
            return False
        first, _ = self.seen[0]
        for point in sizes.multiples(self.run, first):
            try:
                found = probe(
                    self.run, with_vanished_outputs(base_at(self.run, point), first), thorough=False
                )
            except UnusableError:
                continue
            checked = any(t.verdict == "right" for t in found.trials)
            return checked and not found.wrong and not found.misshaped
        return False

    def _told(self, base: Base, found: Probe, code: str) -> None:
        """Say what is wrong at a point, the captured one being right."""
        run, point = self.run, base.point
        # Without code of its own a subject may hold sizes that nobody sees, as ops do.
        written = run.subject.source is not None and point.kind in ("size", "remainder")
        for k, shape in found.misshaped.items() if written else ():
            says = f"at {point.name} the gradient has shape {shape}"
            run.behaves(code, k, says, point=point.name, got=shape, expected=base.xs[k].shape)
        judged = self.run.wanted if point.judged is None else point.judged
        for k in [k for k in found.wrong if k in judged]:
            if (code == "one_sided" and is_beyond(self.seen[0][1], found, k)) or self._derived(
                base, k
            ):
                run.doubt(point.name, k)
                continue
            if settles(run.subject.source):
                run.skip(point.name, "the forward turns until it settles, and may not do so there")
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
        return theirs is not None and self_comparison.distance(theirs[k], mine[k]) < SAME


def _says_how_many(error: BackwardError) -> bool:
    """Whether the backward has taken apart what has so many parts by what it is: `w, x, y, z = q`
    is no size that was forgotten, and is never wrong without a word."""
    return "values to unpack" in str(error)
