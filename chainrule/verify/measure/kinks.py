"""Forwards that are no smooth functions: ties, and steps whose gradient is made up on purpose.

Most kinks need nothing here: their slopes from left and right differ, which makes `numeric`'s bound
of the error large, so that no comparison is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from chainrule.verify.measure.noise import Base, tangent, typical
from chainrule.verify.measure.numeric import Slope, moved, slopes
from chainrule.verify.measure.run import Run, UnusableError, inner, norm
from chainrule.verify.subject import Array

_HALVINGS = 40
_FAR = 8.0
"""How far to look for a jump where the forward is constant."""
_NEAR = 0.05
"""No made-up gradient is as near to the slope."""


def bent(
    run: Run,
    base: Base,
    k: int,
    t: Array,
    along: Sequence[Slope],
    gs: Sequence[Array],
    error: float,
) -> bool:
    """Whether slopes along t and another direction do not add up, by as much as `error` matters.

    So it is where values tie: the median of three equal ones is smooth along every line, but its
    slope is no linear function of the line's direction.
    """
    other = tangent(run.rng, base.xs[k])
    one = slopes(run, base, {k: other})
    both = slopes(run, base, {k: t + other})
    off = sum(
        [
            inner(g, b.value - a.value - c.value)
            for g, a, b, c in zip(gs, along, both, one, strict=True)
        ]
    )
    bound = sum(
        [
            float((np.abs(g) * (a.bound + b.bound + c.bound)).sum())
            for g, a, b, c in zip(gs, along, both, one, strict=True)
        ]
    )
    return abs(off) > max(8 * bound, 0.01 * error)


def straight_through(
    run: Run, base: Base, k: int, t: Array, gs: Sequence[Array], told: float, numeric: float
) -> bool:
    """Whether the forward jumps along t and the backward follows its trend instead of its slope.

    `told` and `numeric` are <J^T g, t> by the backward and <g, J t> by differences.
    """
    flat = abs(numeric) <= 1e-6 * abs(told)
    far = [_FAR, *([_FAR / typical(t)] if typical(t) < 1 else [])] if flat else [1.0]
    if not flat and abs(told - numeric) < _NEAR * abs(told):
        return False
    if not any(_jumps(run, base, k, t, f) for f in far):
        return False
    if flat:
        return True
    trend = _trend(run, base, k, t, gs)
    return trend is not None and abs(told - trend) < 0.2 * abs(told - numeric)


def _trend(run: Run, base: Base, k: int, t: Array, gs: Sequence[Array]) -> float | None:
    """The slope over a step as large as the input itself."""
    try:
        up, down = [run.forward(moved(base.xs, {k: t}, h)) for h in (0.5, -0.5)]
    except UnusableError:
        return None
    return sum([inner(np.asarray(g), p - m) for g, p, m in zip(gs, up, down, strict=True)])


def _jumps(run: Run, base: Base, k: int, t: Array, far: float) -> bool:
    """Whether the forward jumps between x - far t and x + far t: found by halving."""
    places = [s * far for s in (-1.0, -0.5, -0.25, -0.125, 0.0, 0.125, 0.25, 0.5, 1.0)]
    try:
        ys = [run.forward(moved(base.xs, {k: t}, s)) for s in places]
        steps = [_change(a, b) for a, b in pairwise(ys)]
        at = int(np.argmax(steps))
        low, high, size, a, b = places[at], places[at + 1], steps[at], ys[at], ys[at + 1]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            m = run.forward(moved(base.xs, {k: t}, middle))
            if _change(a, m) >= _change(m, b):
                high, b = middle, m
            else:
                low, a = middle, m
    except UnusableError:
        return False
    # A smooth function changes by about 2^-40 of what it did over the whole interval, and at a pole
    # the change grows as the interval shrinks.
    return size > 0 and 2.0**-20 * size < _change(a, b) < 1.01 * size


def _change(a: Sequence[Array], b: Sequence[Array]) -> float:
    if any(p.shape != q.shape for p, q in zip(a, b, strict=True)):
        raise UnusableError("the shape of an output depends on values")
    finite = [np.where(np.isfinite(q - p), q - p, 0) for p, q in zip(a, b, strict=True)]
    return float(sum([norm(f) ** 2 for f in finite]) ** 0.5)
