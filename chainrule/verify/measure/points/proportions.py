"""The captured point with axes that are as long as each other no more, and with more than one row:
what is right for square images, for as many rows as columns, or for one row, may be so by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from chainrule.verify.measure.noise import Base
from chainrule.verify.measure.points.intended_sizes import reads_end
from chainrule.verify.measure.points.lengths import LARGEST, extents
from chainrule.verify.measure.points.sizes import lengthened, size_of
from chainrule.verify.measure.points.value_kinds import is_symmetric
from chainrule.verify.measure.run import Point, Run, UnusableError, inexact, is_array

_MOST = 3
"""Points, each of which makes one input longer."""
_TIMES = (3, 5, 7, 2, 9, 11)
"""How much longer: odd times, what was even or odd stays so."""


def points(run: Run, base: Base) -> Iterator[Point]:
    """Versions of the point in which one of two equal lengths is a multiple of what it was, where
    the forward takes several such, and reads what was added."""
    found = 0
    times = [by for by in _TIMES if by not in extents(base.xs)][:2]
    for k in run.wanted:
        x = base.xs[k]
        free = [axis for axis in _twins(x) if x.shape[axis] not in run.subject.own_sizes]
        for axis in [*free, *_single(base, k)]:
            longer = [p for by in times if (p := _longer(run, base, k, axis, by)) is not None]
            read = all(reads_end(run, p.xs, k, axis) for p in longer)
            if times and len(longer) == len(times) and read:
                yield longer[0]
                found += 1
            if found == _MOST:
                return


def _twins(x: Any) -> list[int]:
    """Axes of an input that are as long as another one of it, the last ones first."""
    if not inexact(x) or is_symmetric(x):
        return []
    return [i for i in reversed(range(x.ndim)) if x.shape[i] > 1 and x.shape.count(x.shape[i]) > 1]


def _single(base: Base, k: int) -> list[int]:
    """The first axis of an input, if that is the only batch of one, and so are all results. Where
    there are several, some may be there to be spread."""
    ones = [j for j, x in enumerate(base.xs) if is_array(x) and x.ndim > 1 and len(x) == 1]
    return [0] if ones == [k] and all(y.ndim and len(y) == 1 for y in base.ys) else []


def _longer(run: Run, base: Base, k: int, axis: int, by: int) -> Point | None:
    """The point with one input longer along an axis; with all inputs of as many axes, if not."""
    x = base.xs[k]
    like = [
        j
        for j, other in enumerate(base.xs)
        if inexact(other) and other.ndim == x.ndim and other.shape[axis] == x.shape[axis]
    ]
    for which in ([k], like):
        xs = tuple(
            lengthened(run, v, j, _times(v.shape, axis, by)) if j in which else v
            for j, v in enumerate(base.xs)
        )
        if size_of(xs) <= max(LARGEST, size_of(base.xs)) and _works(run, base, xs):
            shapes = " ".join([str(v.shape) for v in xs if is_array(v) and v.ndim])
            return Point(f"other proportions {shapes}", xs, "aspect")
    return None


def _times(shape: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    return (*shape[:axis], by * shape[axis], *shape[axis + 1 :])


def _works(run: Run, base: Base, xs: tuple[Any, ...]) -> bool:
    """Whether the forward gives finite numbers, no fewer than before: of what is longer there is
    less for a window, and who says that windows are square may mean it."""
    try:
        ys = run.forward(xs)
    except UnusableError:
        return False
    fewer = any(y.size < z.size for y, z in zip(ys, base.ys, strict=True))
    return not fewer and all(np.isfinite(y).all() for y in ys)
