"""What a repair has to reach: targets for one piece of evidence, the cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from time import process_time
from typing import Any, cast

import numpy as np

from chainrule.verify.evidence import Evidence
from chainrule.verify.repair.target import GOOD, Target, cotangents, target
from chainrule.verify.subject import Array, Source, Subject, values, wanted

SMALL = 600
"""Inputs of at most so many elements in all are worked on as they were captured."""


@dataclass(eq=False)
class Problem:
    """A subject, its source, and the points at which changed code is tried."""

    subject: Subject
    source: Source
    targets: list[Target]
    """The first one is wrong as the code stands; the others may be."""
    runs: int = 0
    stop: float = inf
    _look: int = 0
    _over: bool = False

    def errors(self, function: Callable[..., Any], target: Target) -> dict[int, float]:
        """How wrong each gradient is with `function` as the backward."""
        self.runs += 1
        return target.errors(target.run(self.source, function))

    def right(self, function: Callable[..., Any], inputs: set[int]) -> bool:
        """Whether the gradients of `inputs` are right at all targets."""
        for t in self.targets:
            errors = self.errors(function, t)
            if any(errors[i] > GOOD for i in inputs if i in errors):
                return False
        return True

    @property
    def over(self) -> bool:
        """Whether the processor time is up; looked at now and then, for a look is not cheap."""
        if self.runs >= self._look:
            self._look = self.runs + 16
            self._over = process_time() > self.stop
        return self._over


def problem(evidence: Evidence) -> Problem | None:
    """The problem that the evidence poses; None if there is no source, or if nothing that can be
    computed here is wrong."""
    subject = evidence.subject
    if (source := subject.source) is None:
        return None
    found = Problem(subject, source, [])
    wrong, others = list[Target](), list[Target]()
    for t in _targets(evidence):
        errors = found.errors(source.function, t)
        (wrong if any(e > GOOD for e in errors.values()) else others).append(t)
        if len(wrong) >= 3 and len(wrong) + len(others) >= 4:
            break
    if not wrong:
        return None
    found.targets = [*wrong, *others]
    return found


def _targets(evidence: Evidence) -> Iterator[Target]:
    """Points from the best to work at to the last ones to be checked."""
    subject = evidence.subject
    captured = values(subject, np.float64)
    shrunk = [j.xs for j in evidence.jacobians]
    size = sum([cast("Array", captured[i]).size for i in wanted(subject)])
    points = [("captured", captured)] if size <= SMALL else []
    points += [("shrunk", xs) for xs in shrunk[:2]]
    points += [("captured", captured)] if size > SMALL else []
    points += _others(subject, captured)
    for name, xs in points:
        yield from _at(subject, name, xs)


def _at(subject: Subject, name: str, xs: tuple[Any, ...]) -> Iterator[Target]:
    for seed, layout in ((1, "contiguous"), (2, "strided")):
        gs = cotangents(subject, xs, seed)
        if gs is not None:
            gs = gs if layout == "contiguous" else tuple([_strided(g) for g in gs])
            found = target(f"{name}, {layout}", subject, xs, gs, seed)
            if found is not None:
                yield found


def _strided(g: Array) -> Array:
    """The same numbers in another order of memory, with gaps."""
    wide = np.zeros((*g.shape[:-1], g.shape[-1] * 2)[::-1] if g.ndim else (2,), g.dtype)
    if not g.ndim:
        return g
    view = wide.T[..., ::2] if g.ndim > 1 else wide[::2]
    view[...] = g
    return view


def _others(subject: Subject, captured: tuple[Any, ...]) -> list[tuple[str, tuple[Any, ...]]]:
    """The captured point with other signs and sizes of its values."""
    found = list[tuple[str, tuple[Any, ...]]]()
    free = wanted(subject)
    for name, scale in (("turned over", -1.0), ("smaller", 0.25)):
        xs = [cast("Array", x) * scale if i in free else x for i, x in enumerate(captured)]
        found.append((name, tuple(xs)))
    return found
