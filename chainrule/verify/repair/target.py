"""What a changed backward must give: right gradients at points, made without any backward.

A gradient is compared whole if its input is small, and along random directions if it is large, or
if that would take too long.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import inf
from time import process_time
from typing import Any, cast

import numpy as np

from chainrule.verify.subject import Array, Subject, wanted
from chainrule.verify.tolerances import CLOSE

WHOLE = 96
"""Inputs of at most so many elements are compared element by element."""
DIRECTIONS = 6
_EVALUATIONS = 4
"""Of the forward, for one slope."""
GOOD = 3e-6
"""Relative error up to which a gradient agrees with differences of order four in float64."""


@dataclass(frozen=True, eq=False)
class Expected:
    """The right gradient of one input: itself where `directions` is None, else its products with
    each of the directions. Elements at kinks are not compared."""

    shape: tuple[int, ...]
    directions: Array | None
    values: Array
    sure: Array
    scale: float
    """Size below which a difference means nothing."""

    def comparable(self, x_bar: Array | None) -> Array | None:
        """What of a gradient is compared; None if it has another shape or is not finite."""
        x_bar = np.zeros(self.shape) if x_bar is None else x_bar
        if x_bar.shape != self.shape or x_bar.dtype.kind not in "fciu":
            return None
        flat = np.asarray(x_bar, np.result_type(self.values, np.float64)).reshape(-1)
        if not np.all(np.isfinite(flat)):
            return None
        return (flat if self.directions is None else self.directions @ flat)[self.sure]

    @property
    def right(self) -> Array:
        """What `seen` must give."""
        return self.values[self.sure]

    def error(self, x_bar: Array | None) -> float:
        """Relative error of a gradient; infinite if it has another shape or is not finite."""
        got = self.comparable(x_bar)
        if got is None:
            return np.inf
        wrong = np.linalg.norm(got - self.right)
        size = max(np.linalg.norm(got), np.linalg.norm(self.right))
        return 0.0 if wrong <= 1e-9 * self.scale else float(wrong / size)


@dataclass(frozen=True, eq=False)
class Target:
    """A point, cotangents, and the right gradient of each wanted input."""

    name: str
    xs: tuple[Any, ...]
    gs: tuple[Array, ...]
    expected: dict[int, Expected]
    between: tuple[Any, ...] | None = None
    """Where another call runs before the backward does (see `Subject.interrupted`)."""
    before: tuple[Any, ...] | None = None
    """Where another call has run before this one does (see `Subject.resumed`)."""
    setting: tuple[str, float] | None = None
    """A number of the subject's own that is another one here (see `Subject.at_setting`)."""

    def run(self, subject: Subject) -> tuple[Array | None, ...] | None:
        """x_bars of a subject, or None if its backward raises."""
        with quiet():
            try:
                subject = subject if self.setting is None else subject.at_setting(*self.setting)
                if self.between is not None:
                    return subject.interrupted(self.xs, self.between, self.gs)
                if self.before is not None:
                    return subject.resumed(self.xs, self.before, self.gs)
                return tuple(subject.pull(self.xs, self.gs))
            except (Exception, SystemExit):  # Whatever a wrong edit does, it is only wrong.
                return None

    def errors(self, x_bars: tuple[Array | None, ...] | None) -> dict[int, float]:
        """Of each wanted input, by its index: how wrong."""
        if x_bars is None:
            return dict.fromkeys(self.expected, np.inf)
        return {i: e.error(x_bars[i]) for i, e in self.expected.items()}


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Nothing is printed and nothing warned of."""
    out = io.StringIO()
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        warnings.simplefilter("ignore")
        yield


def target(
    name: str,
    subject: Subject,
    xs: Sequence[Any],
    gs: Sequence[Array],
    seconds: float = inf,
) -> Target | None:
    """The right gradients at xs, by differences of <g, y>; None where the forward fails. What would
    take more than so many seconds in all is measured along directions only."""
    rng = np.random.default_rng(0)

    def value(at: Sequence[Any]) -> float:
        ys = subject.forward(at)
        return sum([float(np.real(np.vdot(g, y))) for g, y in zip(gs, ys, strict=True)])

    expected: dict[int, Expected] = {}
    with quiet():
        try:
            start = process_time()
            terms = [np.abs(g * y) for g, y in zip(gs, subject.forward(xs), strict=True)]
            size = sum([float(np.sum(t)) for t in terms])
            slopes = seconds / max(process_time() - start, 1e-6) / _EVALUATIONS
            most = min(WHOLE, slopes / max(1, len(wanted(subject))))
            for i in wanted(subject):
                expected[i] = _expected_gradient(value, xs, i, rng, most, size)
        except (Exception, SystemExit):
            return None
    usable = all(np.any(e.sure) or not e.sure.size for e in expected.values())
    return Target(name, tuple(xs), tuple(gs), expected) if usable else None


def _expected_gradient(
    value: Callable[[Sequence[Any]], float],
    xs: Sequence[Any],
    i: int,
    rng: np.random.Generator,
    most: float,
    size: float,
) -> Expected:
    """`size`: that of the terms of <g, y>, which may cancel where the gradient is zero."""
    x = cast("Array", xs[i])
    directions = rng.standard_normal((DIRECTIONS, x.size)) if x.size > most else None
    steps = np.eye(x.size) if directions is None else directions
    if x.dtype.kind == "c":
        return _expected_complex_gradient(value, xs, i, directions, steps, size)
    values, sure = _slopes(value, xs, i, steps)
    scale = float(np.linalg.norm(values)) + size
    return Expected(x.shape, directions, values, sure, scale)


def _expected_complex_gradient(
    value: Callable[[Sequence[Any]], float],
    xs: Sequence[Any],
    i: int,
    directions: Array | None,
    steps: Array,
    size: float,
) -> Expected:
    """By PyTorch's convention: the derivative by the real part, plus i times the other one."""
    real, sure_r = _slopes(value, xs, i, steps)
    imaginary, sure_i = _slopes(value, xs, i, 1j * steps)
    values = real + 1j * imaginary
    scale = float(np.linalg.norm(values)) + size
    return Expected(xs[i].shape, directions, values, sure_r & sure_i, scale)


def _slopes(
    value: Callable[[Sequence[Any]], float], xs: Sequence[Any], i: int, steps: Array
) -> tuple[Array, Array]:
    """Derivatives along steps, and which of them can be trusted: two step widths agree."""
    x = cast("Array", xs[i])
    h = 1e-3 * max(1e-3, min(1.0, float(np.median(np.abs(x))) if x.size else 1.0))

    def at(t: float, step: Array) -> float:
        moved = list(xs)
        moved[i] = (x + (t * step).reshape(x.shape)).astype(x.dtype)
        return value(moved)

    here, values = value(xs), np.zeros(len(steps))
    sure = np.zeros(len(steps), bool)
    for k, step in enumerate(steps):
        up, down, up2, down2 = at(h, step), at(-h, step), at(h / 2, step), at(-h / 2, step)
        near, half = (up - down) / (2 * h), (up2 - down2) / h
        values[k] = (4 * half - near) / 3
        size = abs(values[k]) + 1e-12 * (1 + abs(here)) / h
        # Both vanish with h where the function is smooth; at a kink the second one does not.
        even, even2 = abs(up + down - 2 * here) / h, 2 * abs(up2 + down2 - 2 * here) / h
        sure[k] = abs(half - near) <= 1e-3 * size and (even2 <= 1e-4 * size or even2 < 0.7 * even)
    if len(steps) and np.count_nonzero(steps[0]) > 1:
        small = (at(h / 8, steps[0]) - at(-h / 8, steps[0])) / (h / 4)
        near = CLOSE * np.max(np.abs(values)) + 1e-11 * (1 + abs(here)) / h
        sure &= abs(small - values[0]) <= near  # Many small kinks look like one smooth bend.
    return values, sure


def cotangents(subject: Subject, xs: Sequence[Any], seed: int) -> tuple[Array, ...] | None:
    """Random ones for each output at xs; zeros for outputs that are not of floats."""
    with quiet():
        try:
            ys = subject.forward(xs)
        except (Exception, SystemExit):
            return None
    rng = np.random.default_rng(seed)
    return tuple([_random_like(y, rng) for y in ys])


def _random_like(y: Array, rng: np.random.Generator) -> Array:
    if y.dtype.kind == "c":
        g = rng.standard_normal(y.shape) + 1j * rng.standard_normal(y.shape)
    elif y.dtype.kind == "f":
        g = rng.standard_normal(y.shape)
    else:
        g = np.zeros(y.shape)
    return np.asarray(g).astype(y.dtype).reshape(y.shape)
