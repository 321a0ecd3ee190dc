"""From the user's code to code that is right: edits, one after another, each of them measured.

A version is a text, so that an edit of an edited version needs no further machinery. Versions in
which fewer gradients are wrong are taken up first: mistakes in one backward are found one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chainrule.verify.repair.draft import Draft, Edit, Unreadable
from chainrule.verify.repair.lab import Lab
from chainrule.verify.repair.problem import Problem
from chainrule.verify.repair.rules import edits
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.target import GOOD, Target
from chainrule.verify.repair.terms import missing_terms, other_forms
from chainrule.verify.repair.watch import Watched
from chainrule.verify.repair.weigh import weighed

RUNS = 4000
DEPTH = 4
WIDTH = 6
"""Versions of one depth that are edited further."""


@dataclass(frozen=True, eq=False)
class Step:
    """An edit, and the inputs whose gradients it made right."""

    edit: Edit
    mended: frozenset[int]


@dataclass(frozen=True, eq=False)
class Version:
    """A text, how it came about, and what is still wrong in it."""

    draft: Draft
    steps: tuple[Step, ...]
    errors: dict[int, float]

    @property
    def wrong(self) -> frozenset[int]:
        """Inputs whose gradients are wrong."""
        return frozenset([i for i, e in self.errors.items() if e > GOOD])

    @property
    def cost(self) -> float:
        """How unlikely the edits are, all together."""
        return sum([s.edit.cost for s in self.steps])

    @property
    def right(self) -> bool:
        """Whether nothing is wrong at the target."""
        return not self.wrong


def versions(problem: Problem, codes: Sequence[str]) -> Iterator[Version]:
    """Versions that are right at the problem's first target, likely ones first; after them ones in
    which fewer gradients are wrong than in the user's."""
    try:
        first = Draft.of(problem.source)
    except Unreadable:
        return
    at = problem.targets[0]
    start = Version(first, (), problem.errors(problem.source.function, at))
    level, partly = [start], list[Version]()
    for _ in range(DEPTH):
        tried = [v for one in level for v in _tried(problem, at, one, codes)]
        tried.sort(key=lambda v: (len(v.wrong), v.cost))
        yield from [v for v in tried if v.right]
        better = [v for v in tried if not v.right and len(v.wrong) < len(start.wrong)]
        partly += better
        level = _next(tried, start)
        if not level or problem.over or problem.runs > RUNS:
            break
    yield from sorted(partly, key=lambda v: (len(v.wrong), v.cost))


def _next(tried: list[Version], start: Version) -> list[Version]:
    """What is edited further: what mends most, then what comes nearest."""
    open_ = [v for v in tried if not v.right]
    best = sorted(open_, key=lambda v: (len(v.wrong), v.cost))
    mending = [v for v in best if len(v.wrong) < len(start.wrong)][:WIDTH]
    if mending:
        return _different(mending)
    nearer = sorted(open_, key=lambda v: sum(min(e, 10.0) for e in v.errors.values()))
    return _different(nearer)[:WIDTH]


def _different(found: list[Version]) -> list[Version]:
    return list({v.draft.body: v for v in found}.values())


def _tried(
    problem: Problem, at: Target, version: Version, codes: Sequence[str]
) -> Iterator[Version]:
    """What becomes of a version by each edit that does no harm."""
    lab = laboratory(problem, version.draft, at)
    if lab is None:
        return
    seen = set[str]()
    for edit in _edits(lab, codes):
        if problem.over or problem.runs > RUNS * (len(version.steps) + 1):
            return
        if (found := _applied(problem, at, version, edit)) is None or found.draft.body in seen:
            continue
        seen.add(found.draft.body)
        yield found


def _edits(lab: Lab, codes: Sequence[str]) -> Iterator[Edit]:
    """All edits of a scene; those that undo a mistake by one of the given names cost less."""
    by_rule = edits(lab.scene)
    for edit in [*weighed(lab), *by_rule, *missing_terms(lab), *other_forms(lab)]:
        named = edit.code in codes
        yield replace(edit, cost=edit.cost - 0.3) if named else edit


def _applied(problem: Problem, at: Target, version: Version, edit: Edit) -> Version | None:
    """The version after the edit; None if it cannot be run, or harms what was right."""
    draft = version.draft.edited(edit)
    try:
        function = draft.compiled()
    except (SyntaxError, ValueError, StopIteration, Unreadable):
        return None
    errors = problem.errors(function, at)
    if any(errors[i] > GOOD for i in errors if i not in version.wrong):
        return None
    if errors == version.errors:
        return None
    mended = frozenset([i for i in version.wrong if errors[i] <= GOOD])
    return Version(draft, (*version.steps, Step(edit, mended)), errors)


def laboratory(problem: Problem, draft: Draft, at: Target) -> Lab | None:
    """A version seen at a target; None if it does not run there."""
    try:
        watched = Watched(draft)
    except (SyntaxError, ValueError, StopIteration):
        return None
    problem.runs += 1
    x_bars = at.run(problem.source, watched.function)
    if not watched.values:
        return None
    nothing: tuple[Any, ...] = tuple([None for _ in at.xs])
    errors = at.errors(x_bars)
    shapes = [e.shape for i, e in at.expected.items() if errors[i] > GOOD]
    scene = Scene(draft, watched, tuple(shapes), tuple([g.shape for g in at.gs]))
    return Lab(scene, at, nothing if x_bars is None else x_bars)
