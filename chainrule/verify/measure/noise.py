"""How noisy a forward and a backward are at a point: what their rounding does to their results.

Measured, because nothing else knows what goes on inside: values on a line of tiny equal steps, of
which high differences leave the noise only [1].

[1] J. J. More, S. M. Wild, Estimating computational noise, SIAM Journal on Scientific Computing 33
(2011), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, log2
from typing import Any

import numpy as np

from chainrule.verify.measure.run import Point, Run, UnusableError, epsilon, inexact, norm
from chainrule.verify.subject import Array

_TINY = 2.0**-23
"""The step: about what float32 can tell apart, since much code computes in it behind float64."""
_NARROW = (np.float16, np.float32)


@dataclass(frozen=True, eq=False)
class Base:
    """A point, its outputs, and how far they can be trusted."""

    point: Point
    ys: tuple[Array, ...]
    """Widened; zeros for outputs that are not numbers with derivatives."""
    dtypes: tuple[np.dtype[Any], ...]
    """The outputs' own dtypes: those of their cotangents."""
    noise: tuple[Array, ...]
    """Rounding error of each element of each output."""
    step: float
    """The first step for differences, relative to the inputs."""

    @property
    def xs(self) -> tuple[Any, ...]:
        """The point's values."""
        return self.point.xs


def tangent(rng: np.random.Generator, x: Array) -> Array:
    """A random direction of x's own size, with no element near zero."""
    size = (0.25 * typical_size(x) + 0.75 * np.abs(_finite(x))) * np.isfinite(x)
    return size * signs(rng, x.shape, x.dtype.kind == "c")


def signs(rng: np.random.Generator, shape: tuple[int, ...], complex_: bool = False) -> Array:
    """Random numbers of size 0.5 to 1.5 and of either sign, or of any phase."""
    size = rng.uniform(0.5, 1.5, shape)
    if complex_:
        return size * np.exp(1j * rng.uniform(0, 2 * np.pi, shape))
    return np.where(rng.random(shape) < 0.5, -size, size)


def typical_size(x: Array) -> float:
    """The size that elements of x have: 1 where nothing tells."""
    size = np.abs(_finite(x)).reshape(-1)
    used = size[size > 0]
    if not used.size:
        return 1.0
    middle = float(np.median(used))
    # -1e9 in a mask says nothing about the zeros between.
    return 1.0 if middle > 1e4 and used.size < size.size else middle


def base_at(run: Run, point: Point) -> Base:
    """Evaluate a point; `UnusableError` if the forward fails or gives no finite number there."""
    raw = run.raw(point.xs)
    ys = tuple([_wide(y) for y in raw])
    if not any(inexact(y) and y.size for y in raw):
        raise UnusableError("no output has elements with a derivative")
    if not all(np.isfinite(y).any() or not y.size for y in ys):
        raise UnusableError("the forward is not finite there")
    ts = {k: tangent(run.rng, _array(point.xs[k])) for k in run.wanted}
    noise, level = _noise(run, point.xs, raw, ys, ts)
    step = 2.0 ** min(max(round(log2(level) / 6), -9), -2)
    return Base(point, ys, tuple([y.dtype for y in raw]), noise, step)


def with_vanished_outputs(base: Base, usual: Base) -> Base:
    """`base`, where outputs that are 0, and are not at the `usual` point, may be rounded from
    numbers of their usual size: a loss of examples that are told apart with certainty."""
    if len(base.ys) != len(usual.ys):
        return base  # other sizes may have other outputs
    eps = float(np.finfo(np.float64).eps)
    noise = [
        np.full(y.shape, eps * np.abs(_finite(z)).max()) if z.any() and not y.any() else n
        for y, z, n in zip(base.ys, usual.ys, base.noise, strict=True)
    ]
    return replace(base, noise=tuple(noise))


def pull_noise(
    run: Run, base: Base, gs: Sequence[Array], bars: Sequence[Array | None]
) -> tuple[Array | None, ...]:
    """Rounding error of each element of the backward's results, from second differences."""
    ts = {k: tangent(run.rng, _array(base.xs[k])) for k in run.wanted}
    step = _step(base.xs, run)
    # Not the point itself: what is special about its values is no noise.
    near = [run.pull(_shift(base.xs, ts, i * step), gs) for i in (1, 2, 3)]
    return tuple([_second(b, [n[k] for n in near]) for k, b in enumerate(bars)])


def _second(bar: Array | None, near: Sequence[Array | None]) -> Array | None:
    found = [n for n in near if n is not None and bar is not None and n.shape == bar.shape]
    if bar is None or len(found) < 3:
        return None
    with np.errstate(all="ignore"):
        seen = np.abs(found[0] - 2 * found[1] + found[2])
    seen = np.where(np.isfinite(seen), seen, 0.0)
    eps = float(np.finfo(np.float64).eps)
    # One sample of each element's noise may be small by chance: all share the array's.
    size = norm(_finite(bar))
    scale = norm(seen) / size if size else 0.0
    return np.maximum(seen, min(scale, 1.0) * np.abs(bar)) + eps * np.abs(bar)


def _noise(
    run: Run, xs: Sequence[Any], raw: Sequence[Array], ys: Sequence[Array], ts: Mapping[int, Array]
) -> tuple[tuple[Array, ...], float]:
    """For each output its noise; and the level of the noisiest, relative."""
    step = _step(xs, run)
    line = [list(ys)] + [[_wide(y) for y in run.raw(_shift(xs, ts, i * step))] for i in range(1, 6)]
    found = [_of_line([ys_[o] for ys_ in line], raw[o].dtype) for o in range(len(ys))]
    floor = float(np.finfo(np.float64).eps)
    levels = [_level(n, y) for n, y in zip(found, ys, strict=True)]
    return tuple(found), max([floor, *levels])


def _of_line(line: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Noise from six equally spaced values: differences of order k over the root of C(2k, k)."""
    y = line[0]
    if any(v.shape != y.shape for v in line):
        return np.zeros(y.shape)
    stack = np.stack(line)
    noise = np.maximum(epsilon(dtype), computing_epsilon(line[1])) / 2 * np.abs(_finite(y))
    with np.errstate(all="ignore"):
        for order in range(3, 6):
            differences = np.abs(np.diff(stack, order, axis=0)).max(axis=0)
            noise = np.fmax(noise, differences / comb(2 * order, order) ** 0.5)
    return noise


def computing_epsilon(y: Array) -> float:
    """Epsilon of the narrowest dtype that holds all of y: what y was computed in, most likely."""
    finite = y[np.isfinite(y)]
    if finite.size < 3 or y.dtype.kind == "c":
        return 0.0
    with np.errstate(all="ignore"):
        short = finite.astype(np.float32)
        if not np.array_equal(short, finite):
            return 0.0
        if np.array_equal(np.rint(finite), finite):
            return 0.0  # whole numbers fit everywhere
        if not (short.view(np.uint32) & 0xFFFF).any():
            return 2.0**-7
        half = np.array_equal(finite.astype(np.float16), finite)
    return float(np.finfo(np.float16 if half else np.float32).eps)


def _level(noise: Array, y: Array) -> float:
    used = np.abs(y) > 0
    return float(np.median(noise[used] / np.abs(y[used]))) if used.any() else 0.0


def _step(xs: Sequence[Any], run: Run) -> float:
    """Larger where the inputs themselves are of few digits."""
    eps = max([epsilon(_array(xs[k]).dtype) for k in run.wanted], default=0.0)
    return max(_TINY, 8 * eps) * 0.919


def _shift(xs: Sequence[Any], ts: Mapping[int, Array], h: float) -> list[Any]:
    return [
        np.asarray(_array(x) + h * ts[k], _array(x).dtype) if k in ts else x
        for k, x in enumerate(xs)
    ]


def _array(x: Any) -> Array:
    return np.asarray(x)


def _wide(y: Array) -> Array:
    if not inexact(y):
        return np.zeros(y.shape)
    return np.array(y, dtype=np.complex128 if y.dtype.kind == "c" else np.float64)


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, np.zeros((), x.dtype))
