"""Independent numbers that rules ask for at points of their own choice.

`examine` measures the point at which a subject is verified; a rule that thinks "the factor is B"
wants to know it at another B, and one that thinks "y was used instead of x" what the derivative at
y is. Both get it here, from differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.verify.evidence import Evidence
from chainrule.verify.measure.jacobian import numeric
from chainrule.verify.measure.noise import Base, base_at
from chainrule.verify.measure.numeric import slopes
from chainrule.verify.measure.run import Point, Run
from chainrule.verify.subject import Array, Subject, values


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
    """sum of Re<g, dy> when input k moves along t, and a bound of its error."""
    run, base = _at(subject, xs)
    scale = _largest(xs[k]) / _largest(t)
    pairs = list(zip(gs, slopes(run, base, {k: scale * t}), strict=True))
    value = sum([inner(g, s.value) for g, s in pairs])
    bound = sum([float((np.abs(g) * s.bound).sum()) for g, s in pairs])
    return value / scale, bound / scale


def _at(subject: Subject, xs: Sequence[Any]) -> tuple[Run, Base]:
    run = Run(subject, Evidence(subject))
    return run, base_at(run, Point("of a rule's choice", tuple(xs), "value"))


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x), initial=0.0)) or 1.0


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
    run, base = _at(subject, xs)
    return numeric(run, base, k, np.arange(np.size(xs[k])))[output][0]


def one_output(ys: Sequence[Array], output: int, g: Array) -> tuple[Array, ...]:
    """Cotangents that are g for one output and zero for all others."""
    return tuple([np.asarray(g if i == output else np.zeros_like(y)) for i, y in enumerate(ys)])


def _wide(a: Any) -> Array:
    array = np.asarray(a)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
