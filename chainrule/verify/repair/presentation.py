"""A repair as it is shown: the lines that change, before and after."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TypeAlias

from chainrule.verify.finding import Correction
from chainrule.verify.place import Place
from chainrule.verify.repair.code.draft import Draft
from chainrule.verify.repair.search import Step

Stretch: TypeAlias = tuple[int, int, int, int]
"""Lines of the version before, from and to, and those of the version after."""
_TOGETHER = 12
"""Lines that are shown in one piece though some of them stay."""


def correction(first: Draft, last: Draft, steps: Sequence[Step], error: float | None) -> Correction:
    """The correction that leads from one version to the other."""
    before, after = first.text.splitlines(), last.text.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    changes = [c[1:] for c in matcher.get_opcodes() if c[0] != "equal"]
    wide = [_widen(c, len(before)) for c in changes]
    shown = _merge(wide)
    gap = len(shown) > 1
    removed = _join([before[i1:i2] for i1, i2, _, _ in shown], gap)
    added = _join([after[j1:j2] for _, _, j1, j2 in shown], gap)
    line = first.source.first_line + (wide[0][0] if wide else 0)
    place = Place(first.source.file, line, first.source.function.__qualname__)
    formula = "; ".join([s.edit.says for s in steps if s.edit.says])
    return Correction(formula, removed, added, place, error is not None, error)


def _merge(changes: list[Stretch]) -> list[Stretch]:
    """All changes as one stretch with the lines between them, if it is short enough to be read;
    else those that share a line."""
    if len(changes) < 2:
        return changes
    if changes[-1][1] - changes[0][0] <= _TOGETHER:
        return [_spanning(changes[0], changes[-1])]
    apart = changes[:1]
    for change in changes[1:]:
        shared = change[0] < apart[-1][1]
        apart[-1:] = [_spanning(apart[-1], change)] if shared else [apart[-1], change]
    return apart


def _spanning(a: Stretch, b: Stretch) -> Stretch:
    return a[0], b[1], a[2], b[3]


def _widen(change: Stretch, lines: int) -> Stretch:
    """A stretch of lines that only come, with the line before them; of lines that only go, with the
    line behind them, so that it begins where something changes."""
    i1, i2, j1, j2 = change
    if j1 == j2 and i2 < lines:
        return i1, i2 + 1, j1, j2 + 1
    return (i1 - 1, i2, j1 - 1, j2) if (i1 == i2 or j1 == j2) and min(i1, j1) > 0 else change


def _join(parts: list[list[str]], gap: bool) -> str:
    """Stretches of lines, with a mark for what stays between them."""
    return ("\n    ...\n" if gap else "\n").join(["\n".join(p) for p in parts if p])
