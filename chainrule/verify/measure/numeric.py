"""Derivatives from differences, each with a bound of its error: what a backward is compared with.

The derivative J t of every element of every output along a tangent t, from central differences at
h, h/2, h/4 and Richardson's extrapolation [1]. The bound is made of what the steps disagree by, of
how much the even part of the function fails to vanish as a smooth one's does (which is how kinks
give themselves away), and of the forward's own rounding noise, measured.

[1] C. J. F. Ridders, Accurate computation of F'(x) and F'(x) F''(x), Advances in Engineering
Software 4 (1982).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.verify.measure.noise import Base
from chainrule.verify.measure.run import Run, is_array, norm
from chainrule.verify.subject import Array

_HUGE = 1e300
_ENOUGH = 1e-7
"""Relative error at which no other steps are tried."""
_FINER = 2.0**-6
_COARSER = 2.0**4


@dataclass(frozen=True, eq=False)
class Slope:
    """J t of one output, element by element."""

    value: Array
    bound: Array
    """Error of `value`."""
    noise: Array
    """The part of the bound that comes from rounding."""
    left: Array
    right: Array
    """One-sided differences at the smallest step."""
    kink: Array
    """Where they differ, and go on to do so as the step shrinks."""
    jump: Array
    """Where the function itself jumps, or its slope is infinite."""
    flat: bool
    """Whether the smallest steps changed nothing at all."""

    @property
    def resolved(self) -> Array:
        """Where the value is good for a comparison, or as good as rounding allows."""
        rough = self.bound - self.noise
        return rough <= np.maximum(1e-4 * np.abs(self.value) + 1e-6 * self.typical, self.noise)

    @property
    def typical(self) -> float:
        """The size of an element that is not zero."""
        finite = np.abs(self.value[self.bound < _HUGE])
        return norm(finite) / max(float(np.sqrt(np.count_nonzero(finite))), 1.0)


def slopes(run: Run, base: Base, ts: Mapping[int, Array]) -> tuple[Slope, ...]:
    """Derivatives of all outputs as input k moves along ts[k]; inputs without one stay."""
    best = _at_step(run, base, ts, base.step)
    if _good(best):
        return best
    coarser = _noisy(best) and base.step * _COARSER <= 0.5
    steps = [base.step * _COARSER] if coarser else [base.step * _FINER, base.step * _FINER**2]
    for step in steps:
        other = _at_step(run, base, ts, step)
        best = tuple([_better(a, b) for a, b in zip(best, other, strict=True)])
        if _good(best):
            break
    return best


def perturbed(xs: Sequence[Any], ts: Mapping[int, Array], h: float) -> list[Any]:
    """xs + h t, in the dtypes of xs."""
    return [
        np.asarray(x + h * ts[k], x.dtype) if k in ts and is_array(x) else x
        for k, x in enumerate(xs)
    ]


def _at_step(run: Run, base: Base, ts: Mapping[int, Array], h: float) -> tuple[Slope, ...]:
    pairs = [
        (run.forward(perturbed(base.xs, ts, s)), run.forward(perturbed(base.xs, ts, -s)))
        for s in (h, h / 2, h / 4)
    ]
    return tuple(
        [
            _extrapolated(y, [(p[i], m[i]) for p, m in pairs], h, base.noise[i])
            for i, y in enumerate(base.ys)
        ]
    )


def _extrapolated(y: Array, pairs: Sequence[tuple[Array, Array]], h: float, noise: Array) -> Slope:
    """From values at y(+h), y(-h), y(+h/2), ... the slope."""
    if any(p.shape != y.shape or m.shape != y.shape for p, m in pairs):
        nothing = np.zeros(y.shape, y.dtype)
        bad, no = np.full(y.shape, _HUGE), np.zeros(y.shape, bool)
        return Slope(nothing, bad, np.zeros(y.shape), nothing, nothing, no, ~no, False)
    with np.errstate(all="ignore"):
        hs = (h, h / 2, h / 4)
        d0, d1, d2 = [(p - m) / (2 * s) for (p, m), s in zip(pairs, hs, strict=True)]
        e0, e1, e2 = [(p - y + (m - y)) / s for (p, m), s in zip(pairs, hs, strict=True)]
        r0, r1 = (4 * d1 - d0) / 3, (4 * d2 - d1) / 3
        value = np.asarray((16 * r1 - r0) / 15)
        rounding = np.asarray(8 * noise / h)
        # The even part of a smooth function halves with the step, up to third order.
        even = np.abs(e0 - 2 * e1) / 4 + np.abs(e1 - 2 * e2)
        bound = np.asarray(np.abs(r1 - r0) + even + rounding)
        size0, size2 = np.abs(e0), np.abs(e2)
        differ = size2 > np.maximum(8 * rounding, 1e-4 * np.abs(d2))
        kink, jump = differ & (size2 > 0.6 * size0), differ & (size2 > 1.6 * size0)
    bad = ~np.isfinite(bound)
    value[bad], bound[bad] = 0, _HUGE
    p, m = pairs[-1]
    flat = bool(np.array_equal(p, y) and np.array_equal(m, y))
    left, right = d2 - e2 / 2, d2 + e2 / 2
    return Slope(value, bound, rounding, left, right, kink & ~jump, jump | bad, flat)


def _better(a: Slope, b: Slope) -> Slope:
    """Element by element the one with the smaller bound; what contradicts itself is not trusted."""
    first = a.bound <= b.bound
    value = np.where(first, a.value, b.value)
    bound = np.minimum(a.bound, b.bound)
    apart = np.abs(a.value - b.value)
    contradict = (apart > 8 * (a.bound + b.bound)) & np.isfinite(apart)
    bound = np.where(contradict, apart, bound)
    noise = np.where(first, a.noise, b.noise)
    return Slope(value, bound, noise, b.left, b.right, b.kink, b.jump, b.flat)


def _good(found: Sequence[Slope]) -> bool:
    """Whether other steps would not tell more."""
    return all(
        norm(s.bound) <= _ENOUGH * norm(s.value)
        or (norm(s.value) == 0 and norm(s.bound) <= 2 * norm(s.noise))
        for s in found
    )


def _noisy(found: Sequence[Slope]) -> bool:
    """Whether rounding is what limits."""
    return all(norm(s.bound) <= 4 * norm(s.noise) for s in found)
