"""Forwards that are no smooth functions: ties, and steps whose gradient is made up on purpose.

Most kinks need nothing here: their slopes from left and right differ, which makes `numeric`'s bound
of the error large, so that no comparison is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from chainrule.verify.measure import cotangents
from chainrule.verify.measure.noise import Base, signs, tangent, typical_size
from chainrule.verify.measure.numeric import Slope, perturbed, slopes
from chainrule.verify.measure.run import Run, UnusableError, inexact, inner, is_array, norm
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import ROUGH, SAME

_HALVINGS = 40
_FAR = 8.0
"""How far to look for a jump where the forward is constant."""
_DIRECTIONS = 8


def is_bent(
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


def passes_on(run: Run, base: Base, k: int) -> bool:
    """Whether the forward gives back its argument as it is, whatever that is and whatever the
    others are: what the backward does with a gradient is all that such a function is for (to
    reverse it, to bound it). What adds a 0 or multiplies by a 1 does so only for now."""
    x, rng = np.asarray(base.xs[k]), run.rng
    moved_on = [
        f * typical_size(x) * signs(rng, x.shape, x.dtype.kind == "c") for f in (1.0, _FAR**2)
    ]
    rest = [_other(run, v) for v in base.xs]
    try:
        made = [run.forward([*rest[:k], other, *rest[k + 1 :]])[0] for other in moved_on]
    except UnusableError:
        return False
    pairs = [(x, base.ys[0]), *zip(moved_on, made, strict=True)]
    return all(a.shape == b.shape and np.allclose(a, b, rtol=SAME) for a, b in pairs)


def _other(run: Run, x: Any) -> Any:
    """Another value for an argument, of its kind: another truth, a number further on."""
    if isinstance(x, bool):
        return not x
    if isinstance(x, int | float):
        return x + 1
    if not is_array(x):
        return x
    if x.dtype.kind == "b":
        return ~x
    further = x + np.asarray(1, x.dtype)
    return typical_size(x) * signs(run.rng, x.shape, x.dtype.kind == "c") if inexact(x) else further


def is_straight_through(
    run: Run,
    base: Base,
    k: int,
    t: Array,
    along: Sequence[Slope],
    gs: Sequence[Array],
    told: float,
) -> bool:
    """Whether the forward jumps along t and the gradient is made up for that.

    `told` is <J^T g, t> by the backward. Where the forward is constant between its jumps any
    gradient is made up. Where it is not, that of the step of a quantizer may be.
    """
    if _is_constant(along, gs, told):
        return _jumps_anywhere(run, base, k, t)
    return _jumps(run, base, {k: t}, 1.0) and _scales_a_step(run, base, k)


def _is_constant(along: Sequence[Slope], gs: Sequence[Array], told: float) -> bool:
    slope = sum([norm(g * s.value) ** 2 for g, s in zip(gs, along, strict=True)]) ** 0.5
    return slope <= SAME * abs(told)


def _jumps_anywhere(run: Run, base: Base, k: int, t: Array) -> bool:
    far = [_FAR, *([_FAR / typical_size(t)] if typical_size(t) < 1 else [])]
    return any(_jumps(run, base, {k: t}, f) for f in far)


def _scales_a_step(run: Run, base: Base, k: int) -> bool:
    """Whether the argument is the scale of another one's steps, and its gradient follows from the
    gradient that was made up for that one, up to a factor.

    Where both grow alike nothing jumps, so that the derivative along that line is known, whatever
    was made up. Learned step sizes have their gradient times a small number, on purpose (Esser et
    al., "Learned Step Size Quantization", 2020, section 2.2).
    """
    for j in run.wanted:
        if j == k or not inexact(base.xs[j]) or not _is_step(run, base, j):
            continue
        line = {i: np.asarray(base.xs[i]) for i in (j, k)}
        if _jumps(run, base, line, 0.5):
            continue
        rows: list[tuple[float, float]] = []
        for _ in range(_DIRECTIONS):
            gs = cotangents.random(run, base)
            bars = run.pull(base.xs, gs)
            slope = sum(
                [inner(g, s.value) for g, s in zip(gs, slopes(run, base, line), strict=True)]
            )
            rows.append((slope - _along(bars[j], line[j]), _along(bars[k], line[k])))
        off, told = np.array(rows).T
        factor = (off @ told) / (told @ told) if told.any() else 0.0
        if factor > 0 and norm(off - factor * told) < ROUGH * norm(off):
            return True
    return False


def _along(bar: Any, t: Array) -> float:
    return inner(bar, t) if bar is not None and bar.shape == t.shape else float("nan")


def _is_step(run: Run, base: Base, k: int) -> bool:
    """Whether the forward is constant between its jumps along an argument, to which the backward
    gives a gradient all the same."""
    gs, t = cotangents.random(run, base), tangent(run.rng, base.xs[k])
    told = _along(run.pull(base.xs, gs)[k], t)
    constant = _is_constant(slopes(run, base, {k: t}), gs, told)
    return constant and _jumps_anywhere(run, base, k, t)


def _jumps(run: Run, base: Base, ts: Mapping[int, Array], far: float) -> bool:
    """Whether the forward jumps between x - far t and x + far t: found by halving."""
    places = [s * far for s in (-1.0, -0.5, -0.25, -0.125, 0.0, 0.125, 0.25, 0.5, 1.0)]
    try:
        ys = [run.forward(perturbed(base.xs, ts, s)) for s in places]
        steps = [_change(a, b) for a, b in pairwise(ys)]
        at = int(np.argmax(steps))
        low, high, a, b = places[at], places[at + 1], ys[at], ys[at + 1]
        sizes = [steps[at]]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            m = run.forward(perturbed(base.xs, ts, middle))
            first, second = _change(a, m), _change(m, b)
            if first >= second:
                high, b = middle, m
            else:
                low, a = middle, m
            sizes.append(max(first, second))
    except UnusableError:
        return False
    # What a smooth function changes by halves with the interval, and at a pole it grows as the
    # interval shrinks; at a jump it stays.
    late, last = sizes[_HALVINGS // 2], sizes[-1]
    return 2.0**-20 * sizes[0] < last < 1.01 * sizes[0] and 0.5 * late < last < 2 * late


def _change(a: Sequence[Array], b: Sequence[Array]) -> float:
    if any(p.shape != q.shape for p, q in zip(a, b, strict=True)):
        raise UnusableError("the shape of an output depends on values")
    finite = [np.where(np.isfinite(q - p), q - p, 0) for p, q in zip(a, b, strict=True)]
    return float(sum([norm(f) ** 2 for f in finite]) ** 0.5)
