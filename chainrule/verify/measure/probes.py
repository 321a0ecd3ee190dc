"""The adjoint test: <g, J t> from differences against <J^T g, t> from the backward.

Random g and t see every element at once; what is small beside the rest is looked at again along
directions in which everything weighs the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

import numpy as np

from chainrule.verify.evidence import Trial
from chainrule.verify.measure import cotangents
from chainrule.verify.measure.kinks import is_bent, is_straight_through, passes_on
from chainrule.verify.measure.noise import Base, pull_noise, tangent
from chainrule.verify.measure.numeric import Slope, slopes
from chainrule.verify.measure.run import LateError, Run, inner, norm
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import EXACT

_SAFETY = 8.0
_TRIES = 4
"""Directions to compare before a disagreement counts: one may add up by chance."""
_BLURRED = 0.1
"""A tolerance above this says nothing."""

Slopes = dict[int, tuple[Slope, ...]]


@dataclass(frozen=True, eq=False)
class Probe:
    """What was seen at one point."""

    trials: list[Trial]
    slopes: Slopes
    tangents: dict[int, Array]
    kinked: tuple[int, ...]
    """Inputs along which no output is smooth."""
    bars: tuple[Array | None, ...] = ()
    """What the backward gave for a random cotangent; nothing if no input was compared."""

    @property
    def misshaped(self) -> dict[int, tuple[int, ...]]:
        """Inputs whose gradient has another shape than they, and that shape."""
        shapes = {k: b.shape for k, b in enumerate(self.bars) if b is not None}
        return {
            k: s for k, s in shapes.items() if k in self.tangents and s != self.tangents[k].shape
        }

    @property
    def wrong(self) -> tuple[int, ...]:
        """Inputs whose gradient is wrong at this point."""
        return tuple(sorted({t.input for t in self.trials if t.verdict == "wrong"}))


def probe(run: Run, base: Base, thorough: bool) -> Probe:
    """Compare the gradient of each input at one point; `BackwardError` if the backward raises."""
    ts = {k: tangent(run.rng, np.asarray(base.xs[k])) for k in run.wanted}
    found = {k: slopes(run, base, {k: t}) for k, t in ts.items()}
    masks, kinked = _masks(base, found)
    trials = [_unseen(base, k, found[k]) for k in kinked]
    clear = [k for k in run.wanted if k not in kinked]
    if not clear:
        return Probe(trials, found, ts, kinked)
    gs = cotangents.random(run, base, masks)
    bars = run.pull(base.xs, gs)
    rounding = pull_noise(run, base, gs, bars)
    look = Look(run, base, rounding)
    trials += [look.trial("random", k, ts[k], found[k], gs, bars[k]) for k in clear]
    try:
        each = _each_output(look, clear, ts, found, gs)
        for trial in chain(each, _balanced(look, clear, ts, found, gs, bars)) if thorough else ():
            trials.append(trial)
    except LateError as error:
        run.skip(f"more directions: {base.point.name}", str(error))
    return Probe(trials, found, ts, kinked, bars)


@dataclass(frozen=True, eq=False)
class Look:
    """How a number from differences and one from the backward are compared at one point."""

    run: Run
    base: Base
    rounding: Sequence[Array | None]
    """Of the backward's results, element by element."""
    straight: set[int] = field(default_factory=set[int])
    """Inputs of which it is known that slopes along several directions add up."""

    def trial(
        self,
        cotangent: str,
        k: int,
        t: Array,
        along: Sequence[Slope],
        gs: Sequence[Array],
        bar: Array | None,
    ) -> Trial:
        """Compare along t, for cotangents gs."""
        name = self.base.point.name
        if bar is None:
            bar = np.zeros(t.shape)
        if bar.shape != t.shape or not np.isfinite(bar).all():
            return Trial(name, cotangent, k, 1.0, 1.0, "unsure")
        pairs = list(zip(gs, along, strict=True))
        numeric = sum([inner(np.asarray(g), s.value) for g, s in pairs])
        bound = sum([float((np.abs(g) * s.bound).sum()) for g, s in pairs])
        told = inner(bar, t)
        scale = max(norm(bar * t), sum([norm(g * s.value) ** 2 for g, s in pairs]) ** 0.5)
        rounding = self.rounding[k]
        own = norm(rounding * np.abs(t)) if rounding is not None else 0.0
        if scale <= bound:
            return Trial(name, cotangent, k, 0.0, 0.0, "right" if told == numeric else "unsure")
        error = abs(told - numeric) / scale
        tolerance = _SAFETY * (bound + 2 * own) / scale + EXACT
        verdict = _verdict(error, tolerance)
        if verdict != "wrong":
            return Trial(name, cotangent, k, error, tolerance, verdict)
        try:
            verdict = self._doubted(k, t, along, gs, told, numeric)
        except LateError:
            verdict = "unsure"  # it is off, but perhaps no derivative
        return Trial(name, cotangent, k, error, tolerance, verdict)

    def _bent(
        self, k: int, t: Array, along: Sequence[Slope], gs: Sequence[Array], error: float
    ) -> bool:
        return is_bent(self.run, self.base, k, t, along, gs, error)

    def _doubted(
        self,
        k: int,
        t: Array,
        along: Sequence[Slope],
        gs: Sequence[Array],
        told: float,
        numeric: float,
    ) -> Literal["wrong", "unsure", "kink"]:
        """What a disagreement is worth: nothing, where the forward has no derivative."""
        run = self.run
        if run.was_reported("straight_through", k):
            return "unsure"
        if k not in self.straight:
            tries = 1 if run.wrong(k) else _TRIES
            if any(self._bent(k, t, along, gs, abs(told - numeric)) for _ in range(tries)):
                return "kink"
            self.straight.add(k)
        if run.wrong(k):
            return "wrong"
        says = ""
        if run.subject.backward_place is not None and passes_on(run, self.base, k):
            says = "the forward gives back its argument; what it is for is to change the gradient"
        elif is_straight_through(run, self.base, k, t, along, gs, told):
            says = "the forward is a step function; the gradient is made up, as in straight-through"
        if says:
            if self.base.point.kind in ("captured", "moved"):
                run.behaves("straight_through", k, says, told=told, numeric=numeric)
            return "unsure"
        return "wrong"


def _verdict(error: float, tolerance: float) -> Literal["right", "wrong", "unsure"]:
    if not tolerance < _BLURRED:
        return "unsure"
    return "wrong" if error > tolerance else "right"


def _masks(base: Base, found: Slopes) -> tuple[list[Array], tuple[int, ...]]:
    """Outputs' elements that are smooth along all tangents; inputs that leave hardly any.

    An input is judged by the elements that it moves.
    """
    masks = [np.ones(y.shape, bool) for y in base.ys]
    kinked: list[int] = []
    for k, along in found.items():
        rough = sum([int((~s.resolved).sum()) for s in along])
        moves = sum([int(((s.value != 0) | ~s.resolved).sum()) for s in along])
        if 2 * rough > moves:
            kinked.append(k)
        else:
            masks = [m & s.resolved for m, s in zip(masks, along, strict=True)]
    return masks, tuple(kinked)


def _unseen(base: Base, k: int, along: Sequence[Slope]) -> Trial:
    """An input along which nothing is smooth here."""
    kink = any(bool(s.kink.any()) for s in along)
    jump = any(bool(s.jump.any()) for s in along)
    verdict = "kink" if kink and not jump else "unsure"
    return Trial(base.point.name, "random", k, 0.0, 1.0, verdict)


def _each_output(
    look: Look, clear: Sequence[int], ts: dict[int, Array], found: Slopes, gs: Sequence[Array]
) -> Iterator[Trial]:
    """One output at a time, where there are several."""
    used = [o for o, g in enumerate(gs) if g.any()]
    for o in used[:8] if len(used) > 1 else []:
        only = cotangents.one_output(gs, o)
        bars = look.run.pull(look.base.xs, only)
        at = f"random, output {o} alone"
        for k in clear:
            yield look.trial(at, k, ts[k], found[k], only, bars[k])


def _balanced(
    look: Look,
    clear: Sequence[int],
    ts: dict[int, Array],
    found: Slopes,
    gs: Sequence[Array],
    bars: Sequence[Array | None],
) -> Iterator[Trial]:
    """Directions and cotangents for which small elements weigh what large ones do."""
    run, base = look.run, look.base
    for k in clear:
        bar = bars[k]
        if bar is None or bar.shape != ts[k].shape or not np.isfinite(bar).all():
            continue
        t = ts[k] * _weights(bar * ts[k])
        if np.array_equal(t, ts[k]):
            continue
        along = slopes(run, base, {k: t})
        # The same cotangent serves where the new direction meets no kink either.
        if all(bool((s.resolved | (g == 0)).all()) for s, g in zip(along, gs, strict=True)):
            yield look.trial("random, along small elements", k, t, along, gs, bar)
    for k in clear:
        even = [g * _weights(s.value) for g, s in zip(gs, found[k], strict=True)]
        if all(np.array_equal(a, b) for a, b in zip(even, gs, strict=True)):
            continue
        even = [e.astype(g.dtype) for e, g in zip(even, gs, strict=True)]
        bar = run.pull(base.xs, even)[k]
        yield look.trial("weighted to small outputs", k, ts[k], found[k], even, bar)


def _weights(size: Array) -> Array:
    """Factors up to 1 that make sizes alike, as far as six digits go; 1 if they are."""
    absolute = np.abs(size)
    used = absolute[absolute > 0]
    if not used.size:
        return np.ones(size.shape)
    low, high = float(np.quantile(used, 0.01)), float(used.max())
    low = max(low, 1e-6 * high)
    if high < 30 * low:
        return np.ones(size.shape)
    return low / np.maximum(absolute, low)
