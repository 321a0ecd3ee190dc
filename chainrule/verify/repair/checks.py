"""From versions that are right at one point to corrections: what passes all checks.

A version has to be right at every target, its edits are moved to where the mistake was made, and
the subject is examined in full with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import TypeAlias

import numpy as np

from chainrule.verify.evidence import Trial
from chainrule.verify.finding import Correction
from chainrule.verify.foreign_kernels import kernels_in
from chainrule.verify.measure.run import epsilon
from chainrule.verify.repair.budget import FULL_CHECKS
from chainrule.verify.repair.code.draft import Draft, UnreadableError
from chainrule.verify.repair.failing_rules import spare_failures
from chainrule.verify.repair.presentation import correction
from chainrule.verify.repair.problem import Problem
from chainrule.verify.repair.search import Version, replay
from chainrule.verify.tolerances import EXACT, LOOSE

_NEARER = 0.3
"""How much nearer than a version that the check refused for its last digits another one has to come
to be looked at."""


@dataclass(frozen=True, eq=False)
class Repaired:
    """A correction, and the mistakes that its edits undo."""

    correction: Correction
    codes: tuple[str, ...]
    """By edit: rows of `mistakes.MISTAKES`."""
    inputs: frozenset[int]
    """Inputs whose gradients are right with it, and were not before."""
    whole: bool
    """Whether nothing is wrong any more."""
    cost: float
    """How unlikely the edits are."""
    misplaced: bool = False
    """Whether it is right, but not where the mistake was made."""


Search: TypeAlias = Callable[[Draft], Iterator[Version]]
"""From the user's text to versions that are right at the first target."""


def passing(posed: Problem, search: Search) -> list[Repaired]:
    """What passes all checks, of the versions that a search gives."""
    return list(spare_failures(posed.failures, _search, posed, search))


def _search(posed: Problem, search: Search) -> Iterator[Repaired]:
    """Versions that pass at all points, sizes and cotangents, in the order of their cost."""
    if kernels := kernels_in([posed.source.function]):
        why = "memory is handed to code that is not Python: changed code could write anywhere"
        posed.untouched.append(f"{why} ({kernels[0]})")
        return
    try:
        first = Draft.of(posed.source)
    except UnreadableError:
        return
    checks, mended, refused = 0, set[int](), inf
    for found in _meant_versions(posed, search(first)):
        inputs = found.mended
        off = max([found.errors.get(i, 0.0) for i in inputs], default=0.0)
        if inputs <= mended or checks >= FULL_CHECKS or off >= refused:
            continue
        checks += 1
        error = _examine_version(posed, found, inputs)
        if error is None and off > EXACT:
            refused = min(refused, _NEARER * off)
        if error is not None:
            mended |= inputs
            yield _as_repaired(posed, first, found, inputs, error)
            yield from _parts_of(posed, first, found, error)
            if found.right:
                return


def _meant_versions(posed: Problem, found: Iterator[Version]) -> Iterator[Version]:
    """Versions that are right at every target; after them those that are wrong at other sizes only,
    of which the full examination says whether anybody meant these."""
    later = list[Version]()
    for version in found:
        function, inputs = version.draft.compiled(), set(version.mended)
        if posed.right(function, inputs):
            yield version
        elif len(later) < FULL_CHECKS and posed.right_as_it_is(function, inputs):
            later.append(version)
    yield from later


def _examine_version(posed: Problem, version: Version, inputs: frozenset[int]) -> float | None:
    """The largest error left after a full examination; None if something is wrong still."""
    from chainrule.verify.measure.examine import examine

    evidence = examine(posed.source.replaced(version.draft.compiled()))
    wrong = set(evidence.wrong_inputs())
    general = any(b.input is None for b in evidence.behaviours)
    if wrong & inputs or (version.right and (wrong or general)):
        posed.learn(evidence)
        return None
    right = [t for t in evidence.trials if t.input in inputs and t.verdict == "right"]
    nearer = all(_is_nearer(posed, t) for t in right)
    return max([t.error for t in right], default=None) if nearer else None


def _is_nearer(posed: Problem, right: Trial) -> bool:
    """Whether what was right to some digits has gained more than a few: not so where a solver turns
    a little longer."""
    before = posed.wrong.get(right.input, 0.0)
    eps = epsilon(np.asarray(posed.subject.inputs[right.input].value).dtype)
    return not 0 < before < LOOSE or right.error < max(before / 20, 100 * eps)


def _parts_of(posed: Problem, first: Draft, version: Version, error: float) -> Iterator[Repaired]:
    """Of a repair in several steps: for each set of inputs the steps that mend it."""
    groups = {s.mended for s in version.steps if s.mended}
    if len(groups) < 2 or not all(s.mended for s in version.steps):
        return
    for inputs in groups:
        steps = tuple([s for s in version.steps if s.mended == inputs])
        last = replay(first, version.steps, steps)
        try:
            right = posed.right(last.compiled(), set(inputs))
        except (SyntaxError, ValueError):
            continue
        if right:
            yield _as_repaired(
                posed, first, replace(version, draft=last, steps=steps), inputs, error, False
            )


def _as_repaired(
    posed: Problem,
    first: Draft,
    version: Version,
    inputs: frozenset[int],
    error: float,
    whole: bool | None = None,
) -> Repaired:
    shown = correction(first, version.draft, version.steps, error)
    codes = tuple([s.edit.code for s in version.steps])
    whole = version.right if whole is None else whole
    mended = inputs.union(posed.wrong) if whole else inputs
    return Repaired(shown, codes, mended, whole, version.cost)
