"""The point at other settings: numbers that say how, and masks of another share.

A factor that makes up for a mistake at one setting (1.5, where two thirds of the rows are masked)
is none at another. Lengths, values and signs of inputs vary elsewhere; here what has no gradient.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from chainrule.verify.measure.points.value_kinds import even_axis
from chainrule.verify.measure.run import Point, Run, UnusableError, is_array
from chainrule.verify.subject import Array, Subject

_MOST = 3
_SMALLER = 0.6
"""A share, a rate and a scale are still such when they are smaller by this."""


def points(run: Run, point: Point) -> Iterator[Point]:
    """Versions of the point at which the forward works and gives something else."""
    found = 0
    for k, x in enumerate(point.xs):
        new = None if k in run.wanted else _other(x)
        if new is None or found == _MOST:
            continue
        xs = (*point.xs[:k], new, *point.xs[k + 1 :])
        if _matters(run, point, xs):
            found += 1
            yield Point(f"another {run.subject.inputs[k].name}", xs, "setting", point.judged)


def varied_settings(subject: Subject, xs: Sequence[object]) -> Iterator[tuple[str, float]]:
    """Settings that a subject keeps, each with another value that matters."""
    for name, value in subject.settings.items():
        if not (np.isfinite(value) and value > 0):
            continue
        with contextlib.suppress(Exception):  # as the user's code raises it: it is not meant so
            here = subject.forward(xs)
            there = subject.at_setting(name, value * _SMALLER).forward(xs)
            same = [a.shape == b.shape for a, b in zip(here, there, strict=True)]
            if all(same) and any(map(_differ, here, there)):
                yield name, value * _SMALLER


def _other(x: object) -> object:
    """Another value of what has no gradient; None of what may mean something else then."""
    if isinstance(x, float) and np.isfinite(x) and x > 0:
        return type(x)(x * _SMALLER)
    if is_array(x) and (mask := _share(x)) is not None:
        return mask
    return None


def _share(x: Array) -> Array | None:
    """A mask with fewer elements that count; None of what is no mask: of what is 0 and one other
    number, and not in the same numbers in every row, as marks of classes are."""
    if x.size < 3 or x.dtype.kind not in "bf" or even_axis(x.astype(float)) is not None:
        return None
    kept = np.flatnonzero(x)
    if kept.size < 2 or np.unique(x[x != 0]).size != 1:
        return None
    new = x.copy()
    new.reshape(-1)[kept[:: max(2, kept.size // 2)]] = 0
    return new


def _matters(run: Run, point: Point, xs: tuple[object, ...]) -> bool:
    try:
        before, after = run.forward(point.xs), run.forward(xs)
    except UnusableError:
        return False
    same = [a.shape == b.shape for a, b in zip(before, after, strict=True)]
    finite = all(np.isfinite(y).all() for y in after)
    return all(same) and finite and any(map(_differ, before, after))


def _differ(a: Array, b: Array) -> bool:
    return not np.array_equal(a, b)
