"""A quick look whether a gradient can be right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.verify.subject import Array, Subject
from chainrule.verify.tolerances import ROUGH

_STEP = 1e-5


def agrees(
    subject: Subject, pull: Callable[[Sequence[Array]], Sequence[Array | None]], xs: Sequence[Any]
) -> bool:
    """Whether `pull` gives the gradient of the subject's forward at xs (float64), in one direction
    for each input. Quick and rough: to choose by, not to judge by."""
    draw = np.random.default_rng(7)
    ys = subject.forward(xs)
    gs = [_noise(draw, y) for y in ys]
    x_bars = pull(gs)
    for i, x_bar in enumerate(x_bars):
        if x_bar is None or not x_bar.size:
            continue
        t = _noise(draw, xs[i])
        h = _STEP * max(1e-3, float(np.abs(xs[i]).mean()))
        high, low = [subject.forward([*xs[:i], xs[i] + s * h * t, *xs[i + 1 :]]) for s in (1, -1)]
        rates = [_inner(g, (a - b) / (2 * h)) for g, a, b in zip(gs, high, low, strict=True)]
        size = sum([float(np.abs(g * y).sum()) for g, y in zip(gs, ys, strict=True)])
        noise = 10 * float(np.finfo(float).eps) * size / h
        numeric, analytic = sum(rates), _inner(x_bar, t)
        if not abs(numeric - analytic) <= ROUGH * max(abs(numeric), abs(analytic)) + noise:
            return False
    return True


def _noise(draw: np.random.Generator, like: Array) -> Array:
    real = draw.normal(size=like.shape)
    return real + 1j * draw.normal(size=like.shape) if like.dtype.kind == "c" else real


def _inner(a: Array, b: Array) -> float:
    return float(np.vdot(a, b).real)
