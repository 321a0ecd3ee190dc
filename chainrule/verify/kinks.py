"""Forwards that are no smooth functions: steps whose gradient is made up, on purpose.

Kinks need nothing here: their slopes from left and right differ, which makes `numeric`'s bound of
the error large, so that no comparison is made of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from chainrule.verify.noise import Base
from chainrule.verify.numeric import moved
from chainrule.verify.run import Run, UnusableError, inner, norm
from chainrule.verify.subject import Array

_HALVINGS = 24


def straight_through(
    run: Run, base: Base, k: int, t: Array, gs: Sequence[Array], told: float, numeric: float
) -> bool:
    """Whether the forward jumps along t and the backward follows its trend instead of its slope.

    `told` and `numeric` are <J^T g, t> by the backward and <g, J t> by differences.
    """
    jump = _largest_jump(run, base, k, t)
    if jump is None:
        return False
    if abs(numeric) <= 1e-6 * abs(told):
        return True
    trend = _trend(run, base, k, t, gs)
    return trend is not None and abs(told - trend) < 0.5 * min(abs(told - numeric), abs(told))


def _trend(run: Run, base: Base, k: int, t: Array, gs: Sequence[Array]) -> float | None:
    """The slope over a step as large as the input itself."""
    try:
        up, down = [run.forward(moved(base.xs, {k: t}, h)) for h in (0.5, -0.5)]
    except UnusableError:
        return None
    return sum([inner(np.asarray(g), p - m) for g, p, m in zip(gs, up, down, strict=True)])


def _largest_jump(run: Run, base: Base, k: int, t: Array) -> float | None:
    """Where between x - 8t and x + 8t the forward jumps, if it does: found by halving."""
    places = [-8.0, -2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0, 8.0]
    try:
        ys = {s: run.forward(moved(base.xs, {k: t}, s)) for s in places}
        steps = [_change(ys[a], ys[b]) for a, b in itertools.pairwise(places)]
        if not max(steps) > 0:
            return None
        at = int(np.argmax(steps))
        low, high, size = places[at], places[at + 1], steps[at]
        a, b = ys[low], ys[high]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            m = run.forward(moved(base.xs, {k: t}, middle))
            if _change(a, m) >= _change(m, b):
                high, b = middle, m
            else:
                low, a = middle, m
    except UnusableError:
        return None
    # A smooth function changes by 2^-24 of what it did over the whole interval.
    return low if _change(a, b) > 2.0**-12 * size else None


def _change(a: Sequence[Array], b: Sequence[Array]) -> float:
    finite = [np.where(np.isfinite(q - p), q - p, 0) for p, q in zip(a, b, strict=True)]
    return float(sum([norm(f) ** 2 for f in finite]) ** 0.5)
