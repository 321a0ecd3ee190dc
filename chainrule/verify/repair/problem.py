"""What a repair has to reach: targets for one piece of evidence, the cheapest first."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from time import process_time
from typing import Any, cast

import numpy as np

from chainrule.verify.evidence import Evidence
from chainrule.verify.measure import cotangents as memory
from chainrule.verify.measure.captured_point import Base, captured_base
from chainrule.verify.measure.noise import base_at
from chainrule.verify.measure.points import proportions, settings, sizes, windows
from chainrule.verify.measure.points import values as variation
from chainrule.verify.measure.run import Point, Run, UnusableError
from chainrule.verify.measure.self_comparison import other_values
from chainrule.verify.repair.budget import (
    POINTS,
    SECONDS_AT_FIRST,
    SECONDS_AT_OTHERS,
    SECONDS_FOR_POINTS,
    SECONDS_OF_RUN,
    SETTINGS,
    SMALLER_POINTS,
    TIMES_AS_LONG,
    VARIED_POINTS,
)
from chainrule.verify.repair.failing_rules import Failures
from chainrule.verify.repair.target import GOOD, Target, cotangents, target
from chainrule.verify.stopwatch import OverlongError, interrupted_after
from chainrule.verify.subject import Array, Source, Subject, extent, wanted
from chainrule.verify.tolerances import EXACT

SMALL = 200
"""Inputs, and outputs, of at most so many elements are worked on as they were captured."""


@dataclass(frozen=True, eq=False)
class Forward:
    """What is known of a forward at one target."""

    cotangents: dict[tuple[int, ...], list[Array]]
    """By shape: of each of its values, the products of the true cotangent with some directions."""
    names: dict[str, Array]
    """Its local names."""
    inputs: dict[int, Array] = field(default_factory=dict[int, Array])
    """The same products of the gradient of each input."""
    by_name: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])
    """And of what is given a name, in all turns."""


@dataclass(eq=False)
class Problem:
    """A subject, its source, and the points at which changed code is tried."""

    subject: Subject
    source: Source
    targets: list[Target]
    """If the problem is `posed`, the first one is wrong as the code stands; others may be."""
    wrong: dict[int, float] = field(default_factory=dict[int, float])
    """How far off the gradients were that were found to be wrong, at worst, by input."""
    posed: bool = False
    """Whether a gradient is wrong at a target: else what is wrong is something else."""
    forwards: dict[int, Forward] = field(default_factory=dict[int, Forward])
    """What `truth` has measured, by target."""
    failures: Failures = field(default_factory=Failures)
    """Of rules that raised while it was worked on."""
    untouched: list[str] = field(default_factory=list[str])
    """Why some code was not changed."""
    runs: int = 0
    stop: float = inf
    _most: float = field(init=False, default=0.0)
    """Seconds that a run may take, once the first one, of the code as it stands, has shown it."""
    _look: int = field(init=False, default=0)
    _over: bool = field(init=False, default=False)

    def errors(self, function: Callable[..., Any], target: Target) -> dict[int, float]:
        """How wrong each gradient is with `function` as the backward."""
        return target.errors(self.run(self.source.replaced(function), target))

    def run(self, subject: Subject, target: Target) -> tuple[Array | None, ...] | None:
        """x_bars of the subject with another backward."""
        self.runs += 1
        before = process_time()
        try:
            with interrupted_after(self._most):
                return target.run(subject)
        except OverlongError:
            return None
        finally:
            spent = process_time() - before
            self._most = self._most or max(SECONDS_OF_RUN, TIMES_AS_LONG * spent)
            if 2 * spent > self._most:
                self._look = self.runs

    def right(self, function: Callable[..., Any], inputs: set[int]) -> bool:
        """Whether the gradients of `inputs` are right at all targets."""
        return self.right_at(self.targets, function, inputs)

    def right_as_it_is(self, function: Callable[..., Any], inputs: set[int]) -> bool:
        """Whether they are at all targets of the sizes that the first one has."""
        shapes = _shapes(self.targets[0])
        return self.right_at([t for t in self.targets if _shapes(t) == shapes], function, inputs)

    def right_at(
        self, targets: Sequence[Target], function: Callable[..., Any], inputs: set[int]
    ) -> bool:
        """Whether they are at these targets."""
        subject = self.source.replaced(function)
        for t in targets:
            errors = t.errors(self.run(subject, t))
            if any(errors[i] > GOOD for i in inputs if i in errors):
                return False
        return True

    def learn(self, evidence: Evidence) -> None:
        """Take what a version was found to be wrong at, in a full examination, as a target: no
        other version that is wrong there has to be examined."""
        for found in evidence.jacobians[:1]:
            self.targets += _at(self.subject, Point("another", found.xs, "value"), layouts=False)

    @property
    def over(self) -> bool:
        """Whether the processor time is up; looked at now and then, for a look is not cheap."""
        if self.runs >= self._look:
            self._look = self.runs + 16
            self._over = process_time() > self.stop
        return self._over


def problem(evidence: Evidence) -> Problem | None:
    """The problem that the evidence poses; None if there is no source, or no point to work at."""
    subject = evidence.subject
    if (source := subject.source) is None:
        return None
    found = Problem(subject, source, [], _off(evidence))
    wrong, others = list[Target](), list[Target]()
    start = process_time()
    for plain in _targets(evidence):
        t = _among_calls(evidence, plain)
        errors = t.errors(found.run(subject, t))
        (wrong if any(e > GOOD for e in errors.values()) else others).append(t)
        late = bool(wrong) and process_time() - start > SECONDS_FOR_POINTS
        if late or (len(wrong) >= 2 and len(wrong) + len(others) >= POINTS):
            break
    most = max([_size(t) for t in wrong], default=0.0)
    wrong = [t for t in wrong if _size(t) > EXACT * most] or wrong
    found.targets = [*wrong, *others[:POINTS]]
    found.posed = bool(wrong)
    return found if found.targets else None


def _among_calls(evidence: Evidence, plain: Target) -> Target:
    """The target with another call where one has shown what is wrong."""
    if any(b.data.get("interrupted") for b in evidence.behaviours):
        return replace(plain, between=other_values(evidence.subject, plain.xs))
    if any(b.data.get("resumed") for b in evidence.behaviours):
        return replace(plain, before=other_values(evidence.subject, plain.xs))
    return plain


def _off(evidence: Evidence) -> dict[int, float]:
    found = dict.fromkeys(evidence.wrong_inputs(), 0.0)
    for t in evidence.trials:
        if t.input in found and t.verdict == "wrong":
            found[t.input] = max(found[t.input], t.error)
    return found


def _shapes(target: Target) -> list[tuple[int, ...]]:
    return _shapes_of(target.xs)


def _shapes_of(xs: Sequence[Any]) -> list[tuple[int, ...]]:
    return [extent(x) for x in xs]


def _size(target: Target) -> float:
    """Of the right gradients at a target."""
    return max([e.scale for e in target.expected.values()], default=0.0)


def _targets(evidence: Evidence) -> Iterator[Target]:
    """Points from the best to work at to the last ones to be checked."""
    subject = evidence.subject
    run = Run(subject, Evidence(subject))
    try:
        base = captured_base(run)
    except UnusableError:
        return
    if (point := variation.telling_point(run, base.point)) is not None:
        with contextlib.suppress(UnusableError):
            base = base_at(run, point)
    resizable = not subject.fixed
    size = sum([cast("Array", base.xs[i]).size for i in wanted(subject)])
    small = _small(run, base, _off(evidence)) if resizable else []
    shrunk = [Point("shrunk", j.xs, "size") for j in evidence.jacobians[:1]]
    points = [*small, *shrunk]
    points.insert(0 if max(size, *[y.size for y in base.ys]) <= SMALL else len(points), base.point)
    for k, point in enumerate(points):
        yield from _at(subject, point, layouts=k == 0)
    yield from _at_settings(run, base.point)
    resized = _resized(run, base, small) if resizable else iter(())
    varied = itertools.islice(variation.varied_points(run, base.point, base.point), VARIED_POINTS)
    if subject.only_here:
        varied = (variation.nearby_point(run, base.point) for _ in range(VARIED_POINTS))
    sized = resizable and any(b.code == "size" for b in evidence.behaviours)
    made = (proportions.points(run, base), windows.points(run, base), windows.blocks(run, base))
    apart = itertools.chain(*made) if sized else ()
    for point in itertools.chain(apart, resized, varied):
        yield from _at(subject, point, layouts=False)


def _resized(run: Run, base: Base, small: Sequence[Point]) -> Iterator[Point]:
    """Points of other sizes: near the small ones too, for those that are large tell less."""
    seen = [_shapes_of(p.xs) for p in small]
    around = [base]
    for point in small:
        with contextlib.suppress(UnusableError):
            around.insert(0, base_at(run, point))
    for there in around:
        for point in itertools.islice(sizes.others(run, there), 2):
            if (shapes := _shapes_of(point.xs)) not in seen:
                seen.append(shapes)
                yield point


def _at_settings(run: Run, point: Point) -> Iterator[Target]:
    """The point at other settings: what makes up for a mistake at one of them is no correction."""
    for other in settings.points(run, point):
        yield from _at(run.subject, other, layouts=False)
    for name, value in itertools.islice(settings.varied_settings(run.subject, point.xs), SETTINGS):
        made = run.subject.at_setting(name, value)
        for t in _at(made, replace(point, name=f"another {name}"), layouts=False):
            yield replace(t, setting=(name, value))


def _small(run: Run, base: Base, off: Mapping[int, float]) -> list[Point]:
    """A small version of the point: the first that is small enough, if what is right at the point
    is right there, and what is wrong, by so much, has the right shape; else the first one."""
    found = list(itertools.islice(sizes.smaller(run, base), SMALLER_POINTS))

    def size(point: Point) -> int:
        return sum([np.size(point.xs[i]) for i in wanted(run.subject)])

    def is_alike(point: Point) -> bool:
        every = [t.errors(t.run(run.subject)) for t in _at(run.subject, point, layouts=False)]
        told = [(x, off.get(i)) for e in every for i, x in e.items()]
        return all(
            x <= GOOD if was is None else isfinite(x) or not isfinite(was) for x, was in told
        )

    good = (p for k, p in enumerate(found) if size(p) <= SMALL and (k == 0 or is_alike(p)))
    first = next(good, None)
    return found[:1] if first is None else [first]


def _at(subject: Subject, point: Point, layouts: bool) -> Iterator[Target]:
    gs = cotangents(subject, point.xs, 1)
    if gs is None:
        return
    every = [("contiguous", list(gs))]
    if layouts:
        every += [*memory.layouts(gs), ("expanded", [_expand(g) for g in gs])]
    for k, (name, laid) in enumerate(every):
        seconds = SECONDS_AT_FIRST if layouts and k == 0 else SECONDS_AT_OTHERS
        found = target(f"{point.name}, {name}", subject, point.xs, laid, seconds)
        if found is not None:
            some = found.expected if point.judged is None else point.judged
            yield replace(found, expected={k: e for k, e in found.expected.items() if k in some})


def _expand(g: Array) -> Array:
    """One number seen everywhere."""
    return np.broadcast_to(g.reshape(-1)[0], g.shape) if g.size else g
