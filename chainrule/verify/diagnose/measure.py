"""Independent numbers that rules ask for at points of their own choice.

`examine` measures the point at which a subject is verified; a rule that thinks "the factor is B"
wants to know it at another B, and one that thinks "y was used instead of x" what the derivative at
y is. Both get it here, from differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np

from chainrule.verify.subject import Array, Subject, values

_STEP = 2e-3
"""First step, relative to the input's size. Three halvings and extrapolation to the eighth order
leave about 1e-10 of a smooth function."""


def shapes(arrays: Sequence[Any]) -> tuple[tuple[int, ...] | None, ...]:
    """Shape of each array, None for what is none."""
    return tuple([_shape(a) for a in arrays])


def _shape(value: Any) -> tuple[int, ...] | None:
    return cast("Array", value).shape if isinstance(value, np.ndarray) else None


def captured_point(subject: Subject) -> tuple[Any, ...]:
    """The point as captured, in float64."""
    return values(subject, np.float64)


def outputs(subject: Subject, xs: Sequence[Any]) -> tuple[Array, ...]:
    """Outputs at xs, as float64 or complex128."""
    return tuple([_wide(y) for y in subject.forward(xs)])


def pull(subject: Subject, xs: Sequence[Any], gs: Sequence[Array], k: int) -> Array:
    """What the backward gives for input k, zeros for None; any shape that it returned."""
    x_bar = subject.pull(xs, gs)[k]
    return np.zeros(np.shape(xs[k])) if x_bar is None else _wide(np.asarray(x_bar))


def slope(
    subject: Subject, xs: Sequence[Any], k: int, t: Array, gs: Sequence[Array]
) -> tuple[float, float]:
    """sum of Re<g, dy> when input k moves along t, and an estimate of its error."""
    scale = float(np.max(np.abs(xs[k]), initial=0.0)) or 1.0
    size = float(np.max(np.abs(t), initial=0.0)) or 1.0
    steps = [_STEP * scale / size / 2**i for i in range(4)]
    rows = [[_central(subject, xs, k, t, gs, h) for h in steps]]
    for order in (4.0, 16.0, 64.0):
        last = rows[-1]
        rows.append([b + (b - a) / (order - 1) for a, b in pairwise(last)])
    best = rows[-1][0]
    return best, abs(best - rows[-2][-1])


def _central(
    subject: Subject, xs: Sequence[Any], k: int, t: Array, gs: Sequence[Array], h: float
) -> float:
    up, down = [outputs(subject, with_input(xs, k, xs[k] + s * h * t)) for s in (1, -1)]
    return sum([inner(g, (a - b) / (2 * h)) for g, a, b in zip(gs, up, down, strict=True)])


def inner(a: Array, b: Array) -> float:
    """Re sum conj(a) b."""
    return float(np.real(np.vdot(a, b)))


def normal_array(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Normal numbers; an array also where the shape is ()."""
    return np.asarray(rng.normal(size=shape))


def with_input(xs: Sequence[Any], k: int, value: Any) -> tuple[Any, ...]:
    """xs with another value for input k."""
    return (*xs[:k], np.asarray(value), *xs[k + 1 :])


def jacobian(subject: Subject, xs: Sequence[Any], k: int, output: int) -> Array:
    """d y / d x_k by differences, (size of y, size of x), for real x of a few dozen elements."""
    x = np.asarray(xs[k])
    scale = float(np.max(np.abs(x), initial=0.0)) or 1.0
    columns: list[Array] = []
    for j in range(x.size):
        t = np.zeros(x.size)
        t[j] = 1.0
        columns.append(_column(subject, xs, k, output, t.reshape(x.shape), scale))
    return np.stack(columns, axis=1) if columns else np.zeros((0, 0))


def _column(
    subject: Subject, xs: Sequence[Any], k: int, output: int, t: Array, scale: float
) -> Array:
    def central(h: float) -> Array:
        up, down = [subject.forward(with_input(xs, k, xs[k] + s * h * t))[output] for s in (1, -1)]
        return (_wide(up) - _wide(down)).ravel() / (2 * h)

    a, b, c = [central(_STEP * scale / 2**i) for i in range(3)]
    ab, bc = b + (b - a) / 3, c + (c - b) / 3
    return bc + (bc - ab) / 15


def one_output(ys: Sequence[Array], output: int, g: Array) -> tuple[Array, ...]:
    """Cotangents that are g for one output and zero for all others."""
    return tuple([np.asarray(g if i == output else np.zeros_like(y)) for i, y in enumerate(ys)])


def _wide(a: Any) -> Array:
    array = np.asarray(a)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
