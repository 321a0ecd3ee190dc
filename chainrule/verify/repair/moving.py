"""A version that is right, with each of its edits at the statement where it belongs (`home.py`)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from chainrule.verify.repair.draft import Draft, Edit
from chainrule.verify.repair.home import Asked, at_home
from chainrule.verify.repair.lab import laboratory
from chainrule.verify.repair.problem import Problem
from chainrule.verify.repair.search import Step, Version
from chainrule.verify.repair.truth import is_true


def moved_home(posed: Problem, first: Draft, version: Version) -> Version:
    """The same version with its edits where they belong, if it is as right then."""
    places = dict[ast.expr, bool]()

    def doubtful(node: ast.expr) -> bool:
        if not places:
            lab = laboratory(posed, first, posed.targets[0])
            places.update({} if lab is None else {n: is_true(lab, n) for n in lab.scene.roots})
        return not places.get(node, False)

    moved = _moved(first, version, doubtful)
    if moved is None:
        return version
    everywhere = posed.right(version.draft.compiled(), set(version.mended))
    try:
        right = posed.right(moved.draft.compiled(), set(version.mended), everywhere)
    except (SyntaxError, ValueError):
        return version
    return moved if right else version


def _moved(first: Draft, version: Version, doubtful: Asked) -> Version | None:
    """All edits as one where they belong, or else each by itself; None if they are there."""
    steps = version.steps
    whole = at_home(first, version.draft, steps[0].edit, doubtful)
    if whole is not None:
        return replace(version, draft=first.edited(whole), steps=(Step(whole, version.mended),))
    alone = [_alone(steps, k) for k in range(len(steps))]
    if len(steps) < 2 or not _in_order(alone):
        return None
    moved = [at_home(first, first.edited(e), e, doubtful) for e in alone]
    edits = [b or a for a, b in zip(alone, moved, strict=True)]
    if not any(moved) or not _in_order(edits):
        return None
    draft, done = first, list[Step]()
    for step, edit in sorted(zip(steps, edits, strict=True), key=lambda p: -p[1].start):
        draft = draft.edited(edit)
        done.append(Step(edit, step.mended))
    return replace(version, draft=draft, steps=tuple(done))


def _alone(steps: Sequence[Step], k: int) -> Edit:
    """A step's edit where it stands in the text before all of them."""
    edit = steps[k].edit
    before = [s.edit for s in steps[:k] if s.edit.start < edit.start]
    shift = sum([len(e.text) - (e.end - e.start) for e in before])
    return replace(edit, start=edit.start - shift, end=edit.end - shift)


def _in_order(edits: Sequence[Edit]) -> bool:
    """Whether no two edits change the same stretch."""
    ordered = sorted(edits, key=lambda e: e.start)
    return all(a.end <= b.start and a.start < b.start for a, b in pairwise(ordered))
