"""Which elements get the cotangent: others than those that the forward takes, or all of them alike.

A forward that picks elements (a maximum, a mask, an index, padding) has a Jacobian of few different
numbers. Then it can be seen whether the backward picks others, or spreads over all what is one's.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.subject import Array

_EQUAL = 1e-6
_HALF = 0.5
"""A backward that spreads g reaches at least this share of what it must."""
_MORE = 1.5
"""It hands on at most so much more than it gets."""


def selected(case: Case) -> Iterator[Guess]:
    """Guesses for a backward that hands g to other elements than the forward reads."""
    if not case.whole or np.iscomplexobj(case.A) or case.A.shape[1] < 2:
        return
    true, seen = ~case.tiny_N, ~case.tiny_A
    if not np.any(seen) or not _alike(case.N, true) or not _alike(case.A, seen):
        return
    lost, extra = true & ~seen, seen & ~true
    both = true & seen
    if np.any(lost) and np.any(extra) and np.all(case.agrees[both]):
        yield from _others(case, int(lost.sum()), int(extra.sum()))
    elif _spread(case, true, seen) and float(np.sum(seen & true)) > _HALF * float(np.sum(true)):
        yield _evenly(case, seen)


def _alike(matrix: Array, mask: Array) -> bool:
    """Whether in each row all elements that are not zero are equal."""
    high = np.where(mask, matrix, -np.inf).max(axis=1)
    low = np.where(mask, matrix, np.inf).min(axis=1)
    rows = mask.any(axis=1)
    return bool(np.all(np.abs(high - low)[rows] <= _EQUAL * np.abs(high)[rows]))


def _spread(case: Case, true: Array, seen: Array) -> bool:
    """Whether each output reads one element, and hands its cotangent to several, in shares."""
    if float(np.sum(np.abs(case.A))) > _MORE * float(np.sum(np.abs(case.N))):
        return False
    read: Array = np.asarray(true.sum(axis=1))
    reached: Array = np.asarray(seen.sum(axis=1))
    return bool(read.max() == 1) and int(reached.sum()) > int(read.sum())


def _others(case: Case, lost: int, extra: int) -> Iterator[Guess]:
    name = case.input
    because = (
        f"{lost} elements of the Jacobian are zero in A and not in N, {extra} in N and not in A; "
        "where neither is zero they agree"
    )
    detail = f"g goes to other elements of {name} than those that the forward takes"
    formula = f"pick the elements of {name}_bar by the same condition or index as the forward does"
    yield guess("region", 12.0, because, detail, formula=formula)
    yield guess("wrong_value", 12.5, because, detail, formula=formula)


def _evenly(case: Case, seen: Array) -> Guess:
    name, count = case.input, float(np.sum(seen) / np.sum(seen.any(axis=1)))
    return guess(
        "wrong_value",
        7.5,
        f"each output depends on one element of {name}; in A on {count:.3g} on average, all alike",
        f"g is spread over several elements of {name}, of which the forward takes one",
        formula=f"give all of g to the element of {name} that the forward took",
    )
