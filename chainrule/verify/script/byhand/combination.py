"""Gradients that hold more than those of the loss: a weight decay, a momentum.

What a step takes off a parameter is solved for, as a sum of multiples of the loss's gradient, of
the parameter, of those of its elements that have a gradient at all, and of arrays of its shape that
the script keeps. It counts if there are more equations than unknowns, and all of them hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from chainrule.verify.subject import Array
from chainrule.verify.tolerances import LOOSE

if TYPE_CHECKING:
    from chainrule.verify.script.byhand.step import HandStep

_STEP = 1e-5
_SPARE = 4
"""Equations that must hold beside those that give the unknowns."""
_KEPT = 3
"""Arrays of a parameter's shape that are tried."""
_ONE: Final = np.ones(())


@dataclass(frozen=True)
class Combination:
    """What gradients are made of, the same for all parameters."""

    by: float
    """The multiple of the loss's gradient."""
    decays: tuple[float, ...]
    """Those of the parameters."""
    has_momentum: bool
    is_even: bool = True
    """Whether all matrices decay alike."""

    def __str__(self) -> str:
        parts = ["those of the loss" if self.by == 1 else f"{self.by:.3g} times those of the loss"]
        parts += [f"{d:.3g} times the parameters: a weight decay" for d in self.decays]
        parts += ["a multiple of what the script keeps: a momentum"] if self.has_momentum else []
        return f"they are {', and '.join(parts)}"


def combination(step: HandStep) -> Combination | None:
    """What a step's gradients are made of; None if some are no such sum, or if there is nothing in
    them but the loss's. Those of few elements have to fit with the multiple that the others have.
    """
    values = [x.value for x in step.inputs]
    gradients = step.pull(values, [_ONE])
    if any(g is None or not np.any(g) for g in gradients):
        return None
    rows, matrices = list[Combination](), set[float]()
    for k in sorted(range(len(values)), key=lambda k: -values[k].size):
        row = _of_one(step, values, k, np.asarray(gradients[k]), rows[0].by if rows else None)
        if row is None:
            return None
        rows += [row] if row.by else []
        matrices |= {float(f"{d:.4g}") for d in row.decays if values[k].ndim > 1}
    decays = {float(f"{d:.6g}") for row in rows for d in row.decays if d}
    has_momentum = any(row.has_momentum for row in rows)
    if not (decays or has_momentum):
        return None
    by = rows[0].by
    by = round(by * 2) / 2 if abs(by - round(by * 2) / 2) < LOOSE else by
    is_even = len(matrices) < 2 or has_momentum
    return Combination(by, tuple(sorted(decays)), has_momentum, is_even) if by > 0 else None


def explained(step: HandStep) -> set[str]:
    """Names of the parameters whose gradients are those of the loss, and a decay or a momentum."""
    values = [x.value for x in step.inputs]
    found = set[str]()
    for k, (x, g) in enumerate(zip(step.inputs, step.pull(values, [_ONE]), strict=True)):
        row = None if g is None or not np.any(g) else _of_one(step, values, k, g, 1.0)
        if row is not None and row.by and (any(row.decays) or row.has_momentum):
            found.add(x.name)
    return found


def _of_one(
    step: HandStep, values: Sequence[Array], k: int, g: Array, by: float | None
) -> Combination | None:
    """What the gradient of one parameter is made of; a multiple of 0 if it is too small to tell."""
    own = [values[k], np.where(g != 0, values[k], 0)]
    own = own[:1] if np.array_equal(own[0], own[1]) else own
    kept = [a for a in step.held.of_shape(g.shape) if np.any(a)]
    kept = [a for a in kept if not any(np.array_equal(a, x) for x in values)][:_KEPT]
    for columns in (own, [*own, *kept]):
        if g.size < len(columns) + 1 + _SPARE and (by is None or g.size <= len(columns)):
            return Combination(0.0, (), False)
        found = _solved(step, values, k, g, columns, by)
        if found is not None and sum(found[1 : len(own) + 1]) >= 0:
            decay = sum(found[1 : len(own) + 1])
            return Combination(found[0], (decay,), any(found[len(own) + 1 :]))
    return None


def _solved(
    step: HandStep, values: Sequence[Array], k: int, g: Array, columns: Sequence[Array],
    by: float | None,
) -> list[float] | None:  # fmt: skip
    """The multiples of the loss's gradient, which may be known, and of `columns` that make up g;
    None if none do."""
    rng = np.random.default_rng(5)
    ts = rng.normal(size=(min(g.size, len(columns) + 1 + _SPARE), *g.shape))
    ts /= np.sqrt(np.sum(ts**2, axis=tuple(range(1, ts.ndim)), keepdims=True))
    slopes = np.array([_slope(step, values, k, t) for t in ts])
    a = np.array([[float(np.sum(c * t)) for c in columns] for t in ts])
    b = np.array([float(np.sum(g * t)) for t in ts])
    if not np.any(slopes):
        return None
    if by is None:
        a = np.column_stack([slopes, a])
    else:
        b = b - by * slopes
    sizes = np.linalg.norm(a, axis=0)
    sizes = np.where(sizes, sizes, 1)
    x = np.linalg.lstsq(a / sizes, b, rcond=1e-9)[0]
    least = LOOSE * float(np.linalg.norm(g))
    if np.max(np.abs(a / sizes @ x - b)) > least:
        return None
    found = [float(v) for v in np.where(np.abs(x) > least, x / sizes, 0)]
    return found if by is None else [by, *found]


def _slope(step: HandStep, values: Sequence[Array], k: int, t: Array) -> float:
    ends = [[*values[:k], values[k] + h * t, *values[k + 1 :]] for h in (_STEP, -_STEP)]
    up, down = [float(step.forward(xs)[0]) for xs in ends]
    return (up - down) / (2 * _STEP)
