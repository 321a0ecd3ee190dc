"""From the user's code to code that is right: edits, one after another, each of them measured.

A version is a text, so that an edit of an edited version needs no further machinery. Versions in
which fewer gradients are wrong are taken up first: mistakes in one backward are found one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isclose
from typing import TypeAlias

from chainrule.verify.repair.budget import DEPTH, VERSIONS_COMPARED, WIDTH
from chainrule.verify.repair.code.draft import Draft, Edit, UnreadableError, growth
from chainrule.verify.repair.expected.expected_values import truths
from chainrule.verify.repair.failing_rules import spare_failures
from chainrule.verify.repair.problem import Problem
from chainrule.verify.repair.proposals import STAGES, Proposals, Stage, cost_of
from chainrule.verify.repair.rule_costs import (
    KEPT_LAST,
    KEPT_TWICE,
    LIKELY_REPAIR,
    NAMED,
    NEAR,
    SLACK,
    SLACK_OF_SEVERAL,
    TRUE,
)
from chainrule.verify.repair.rules import edits
from chainrule.verify.repair.rules.saved_values import (
    is_kept_twice,
    keeping_edits,
    kept_anew,
    kept_copies,
    kept_functions,
    kept_others,
)
from chainrule.verify.repair.target import GOOD, Target, quiet
from chainrule.verify.repair.values.lab import laboratory
from chainrule.verify.tolerances import EXACT


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
    def mended(self) -> frozenset[int]:
        """Inputs whose gradients the steps made right."""
        return frozenset([i for s in self.steps for i in s.mended])

    @property
    def cost(self) -> float:
        """How unlikely the edits are, all together."""
        return sum([s.edit.cost for s in self.steps])

    @property
    def right(self) -> bool:
        """Whether nothing is wrong at the target."""
        return not self.wrong


def versions(problem: Problem, first: Draft, codes: Sequence[str]) -> Iterator[Version]:
    """Versions that are right at the problem's first target, likely ones first; after them ones in
    which fewer gradients are wrong than in the user's."""
    at = problem.targets[0]
    start = Version(first, (), problem.errors(problem.source.function, at))
    if not problem.posed or start.right:
        yield from _conduct(problem, at, first, codes)
        return
    level, partly, proposed = [start], list[Version](), dict[Version, Proposals | None]()
    for _ in range(DEPTH):
        tried, given = list[Version](), set[Version]()
        for stage in STAGES:
            tried += _stage(problem, proposed, level, stage, codes)
            tried += _combine(problem, at, tried) if len(start.wrong) > 1 else []
            if stage is STAGES[-1] or _enough(problem, tried):
                tried.sort(key=lambda v: (len(v.wrong), v.cost))
                right = [v for v in tried if v.right and v not in given]
                given |= set(right)
                yield from _truest_first(problem, right)
                # Whoever asks for more has found none of them right everywhere.
        partly += [v for v in tried if not v.right and len(v.wrong) < len(start.wrong)]
        level = _next(tried, start)
        if not level or problem.over or any(v.right for v in tried):
            break
    yield from sorted(partly, key=lambda v: (len(v.wrong), v.cost))


def _enough(problem: Problem, tried: list[Version]) -> bool:
    """Whether there is a likely version that is right, not at the first target only: what turns a
    sign is right where all of an input is negative, say."""
    likely = [v for v in tried if v.right and v.cost <= LIKELY_REPAIR * len(v.steps)]
    likely.sort(key=lambda v: v.cost)
    return any(problem.right(v.draft.compiled(), set(v.mended)) for v in likely[:VERSIONS_COMPARED])


Proposed: TypeAlias = dict[Version, Proposals | None]


def _stage(
    problem: Problem, proposed: Proposed, level: list[Version], stage: Stage, codes: Sequence[str]
) -> list[Version]:
    """What becomes of all versions of a level by the edits of one stage. Only those that mended
    something are worth the second one."""
    found, at = list[Version](), problem.targets[0]
    for version in level:
        mending = all(s.mended for s in version.steps)
        if (mending or stage is not STAGES[1]) and not problem.over:
            if version not in proposed:
                lab = laboratory(problem, version.draft, at)
                proposed[version] = None if lab is None else Proposals(lab, codes)
            proposals = proposed[version]
            found += [] if proposals is None else _try(problem, version, proposals, stage)
    return found


def _conduct(problem: Problem, at: Target, first: Draft, codes: Sequence[str]) -> Iterator[Version]:
    """Versions in which something was changed that undoes a mistake of the given names, for
    backwards whose numbers are right: who write into their cotangent, say."""
    lab = laboratory(problem, first, at)
    if lab is None:
        return
    for edit in Proposals(lab, ()).weighted(edits(lab.scene, codes)):
        draft = first.edited(edit)
        try:
            errors = problem.errors(draft.compiled(), at)
        except (SyntaxError, ValueError, StopIteration, UnreadableError):
            continue
        if all(e <= GOOD for e in errors.values()):
            yield Version(draft, (Step(edit, frozenset(errors)),), errors)


def keeping(problem: Problem, first: Draft, codes: Sequence[str]) -> Iterator[Version]:
    """Versions of a forward that keep a copy, another value, or the same at another time, after
    which the user's own backward is right."""
    at = problem.targets[0]
    if not problem.posed or (lab := laboratory(problem, first, at)) is None:
        return
    start = Version(first, (), lab.errors)
    rules = (
        kept_anew,
        kept_copies,
        kept_others,
        kept_functions,
    )
    proposed = [e for rule in rules for e in spare_failures(problem.failures, rule, lab.scene)]
    proposed += keeping_edits(lab.scene, edits)
    more = [
        KEPT_TWICE * is_kept_twice(lab.scene, e) - KEPT_LAST * e.start / len(first.body)
        for e in proposed
    ]
    costs = [e.cost - NAMED * (e.code in codes) + m for e, m in zip(proposed, more, strict=True)]
    proposed = [replace(e, cost=c) for e, c in zip(proposed, costs, strict=True)]
    for edit in sorted(proposed, key=cost_of):
        found = None if problem.over else apply_edit(problem, at, start, edit)
        if found is not None and found.right:
            yield found


def _truest_first(problem: Problem, found: list[Version]) -> list[Version]:
    """Versions that are right, those first of which most values on the way are right as well, if
    they are about as likely: an edit that only makes up for what is wrong is not where it is."""
    if len(found) < 2:
        return found
    least = min(v.cost for v in found)
    near = [v for v in found if v.cost <= least + NEAR][:VERSIONS_COMPARED]
    with quiet():
        labs = [laboratory(problem, v.draft, problem.targets[0]) for v in near]
    cost = {v: v.cost - TRUE * truths(b) for v, b in zip(near, labs, strict=True) if b is not None}
    return sorted(found, key=lambda v: (v not in cost, cost.get(v, v.cost)))


def _combine(problem: Problem, at: Target, tried: list[Version]) -> Iterator[Version]:
    """Edits of one version that mend different gradients, made together: for each input the
    likeliest one."""
    best = dict[frozenset[int], Version]()
    for v in sorted(tried, key=lambda v: v.cost):
        if v.steps[-1].mended:
            best.setdefault(v.steps[-1].mended, v)
    whole: Version | None = None
    for v in sorted(best.values(), key=lambda v: (-len(v.steps[-1].mended), v.cost)):
        if whole is None:
            whole = v
        elif v.steps[-1].mended & whole.wrong and _can_follow(whole, v):
            whole = _both(problem, at, whole, v) or whole
    if whole is not None and len(whole.steps) > 1:
        yield whole


def _can_follow(a: Version, b: Version) -> bool:
    """Whether the last edit of b can follow the last edits of a, at the same level."""
    return all(
        s.edit.end <= b.steps[-1].edit.start or b.steps[-1].edit.end <= s.edit.start
        for s in a.steps
    )


def _both(problem: Problem, at: Target, a: Version, b: Version) -> Version | None:
    """Version a with the last edit of b, moved to where its text stands after a's edits."""
    edit = b.steps[-1].edit
    return apply_edit(problem, at, a, edit.moved(growth([s.edit for s in a.steps], edit.start)))


def replay(first: Draft, steps: Sequence[Step], some: Sequence[Step]) -> Draft:
    """The first version after some of the steps, which do not overlap with the others."""
    draft, skipped = first, list[Edit]()
    for step in steps:
        edit = step.edit
        if step in some:
            draft = draft.edited(edit.moved(-growth(skipped, edit.start)))
        else:
            skipped.append(edit)
    return draft


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


def _try(
    problem: Problem, version: Version, proposals: Proposals, stage: Stage
) -> Iterator[Version]:
    """What becomes of a version by each edit of a stage that does no harm, until all that is wrong
    could be mended by edits that are much more likely than those that are left."""
    seen, mended, enough = set[str](), set[int](), inf
    for batch in stage(proposals):
        for edit in batch:
            if problem.over or edit.cost > enough + SLACK:
                break
            found = apply_edit(problem, proposals.lab.target, version, edit)
            if found is not None and found.draft.body not in seen:
                seen.add(found.draft.body)
                mended |= found.steps[-1].mended
                if mended >= version.wrong and not _by_chance(problem, found):
                    apart = 0.0 if found.right else SLACK_OF_SEVERAL
                    enough = min(enough, edit.cost + apart)
                yield found


def _by_chance(problem: Problem, found: Version) -> bool:
    """Whether a version is right at the first target, and not at others: of two sizes that are the
    same there, it has the wrong one."""
    return found.right and not problem.right(found.draft.compiled(), set(found.mended))


def apply_edit(problem: Problem, at: Target, version: Version, edit: Edit) -> Version | None:
    """The version after the edit; None if it cannot be run, or harms what was right."""
    draft = version.draft.edited(edit)
    try:
        function = draft.compiled()
    except (SyntaxError, ValueError, StopIteration, UnreadableError):
        return None
    errors = problem.errors(function, at)
    if any(errors[i] > GOOD for i in errors if i not in version.wrong):
        return None
    if all(isclose(errors[i], e, rel_tol=EXACT) for i, e in version.errors.items()):
        return None  # It says the same in other words.
    mended = frozenset([i for i in version.wrong if errors[i] <= GOOD])
    return Version(draft, (*version.steps, Step(edit, mended)), errors)
