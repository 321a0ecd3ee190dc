"""A repair as it is shown: the lines that change, before and after."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from chainrule.verify.finding import Correction
from chainrule.verify.place import Place
from chainrule.verify.repair.draft import Draft
from chainrule.verify.repair.search import Step


def correction(first: Draft, last: Draft, steps: Sequence[Step], error: float | None) -> Correction:
    """The correction that leads from one version to the other."""
    before, after = first.text.splitlines(), last.text.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    changes = [c for c in matcher.get_opcodes() if c[0] != "equal"]
    gap = len(changes) > 1
    widened = [_widened(c[1:]) for c in changes]
    removed = _joined([before[i1:i2] for i1, i2, _, _ in widened], gap)
    added = _joined([after[j1:j2] for _, _, j1, j2 in widened], gap)
    line = first.source.first_line + (changes[0][1] if changes else 0)
    place = Place(first.source.file, line, first.source.function.__qualname__)
    formula = "; ".join([s.edit.says for s in steps if s.edit.says])
    return Correction(formula, removed, added, place, error is not None, error)


def _widened(change: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """A stretch of lines that only go or only come, with the line before them."""
    i1, i2, j1, j2 = change
    return (i1 - 1, i2, j1 - 1, j2) if (i1 == i2 or j1 == j2) and min(i1, j1) > 0 else change


def _joined(parts: list[list[str]], gap: bool) -> str:
    """Stretches of lines, with a mark for what stays between them."""
    return ("\n    ...\n" if gap else "\n").join(["\n".join(p) for p in parts if p])
