"""Both Jacobians of one output by one input: unit cotangents against differences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.verify.evidence import Jacobians
from chainrule.verify.measure import cotangents
from chainrule.verify.measure.noise import Base, typical_size
from chainrule.verify.measure.numeric import slopes
from chainrule.verify.measure.run import Run
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import SAME

LARGEST = 400
"""Elements of an input or output of which a whole Jacobian is made."""


def fits(base: Base, k: int) -> bool:
    """Whether whole Jacobians by input k are small enough."""
    return base.xs[k].size <= LARGEST and sum([y.size for y in base.ys]) <= LARGEST


def all_jacobians(run: Run, base: Base, k: int) -> list[Jacobians]:
    """All Jacobians by input k that differ: one for each output."""
    size: int = base.xs[k].size
    columns = numeric(run, base, k, np.arange(size))
    found: list[Jacobians] = []
    for o in cotangents.used_outputs(base):
        y = base.ys[o]
        rows = analytic(run, base, k, o, np.arange(y.size))
        if rows is None:
            return []
        values, bounds = columns[o]
        found.append(
            Jacobians(base.xs, k, o, rows, values, bounds, y.shape, tuple(base.xs[k].shape))
        )
    return [j for j in found if differs(j)]


def some_entries(
    run: Run, base: Base, k: int, o: int, rows: Array, columns: Array
) -> Jacobians | None:
    """Some rows and columns (flat indices) of a Jacobian that is too large; None if they agree."""
    told = analytic(run, base, k, o, rows)
    if told is None:
        return None
    values, bounds = numeric(run, base, k, columns)[o]
    shapes = (rows.size,), (columns.size,)
    j = Jacobians(
        base.xs, k, o, told[:, columns], values[rows], bounds[rows], *shapes, rows, columns
    )
    return j if differs(j) else None


def differs(j: Jacobians) -> bool:
    """Whether any element differs by more than differences and rounding explain."""
    size = np.maximum(np.abs(j.analytic), np.abs(j.numeric))
    around = np.maximum(size, 1e-3 * float(size.max(initial=0.0)))
    return bool((np.abs(j.difference) > 8 * j.bound + SAME * around).any())


def numeric(run: Run, base: Base, k: int, columns: Array) -> list[tuple[Array, Array]]:
    """For each output the derivatives by some elements of input k, a column each, and bounds."""
    x: Array = base.xs[k]
    own = typical_size(x)
    values: list[list[Array]] = [[] for _ in base.ys]
    bounds: list[list[Array]] = [[] for _ in base.ys]
    for j in columns:
        t = np.zeros(x.size, np.complex128 if x.dtype.kind == "c" else np.float64)
        t[j] = size = 0.25 * own + 0.75 * abs(complex(x.reshape(-1)[j]))
        for o, s in enumerate(slopes(run, base, {k: t.reshape(x.shape)})):
            values[o].append(s.value.reshape(-1) / size)
            bounds[o].append(s.bound.reshape(-1) / size)
    return [
        (_stacked(v, y.size), _stacked(b, y.size))
        for v, b, y in zip(values, bounds, base.ys, strict=True)
    ]


def _stacked(columns: Sequence[Array], rows: int) -> Array:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))


def analytic(run: Run, base: Base, k: int, o: int, rows: Array) -> Array | None:
    """The rows of output o by all of input k, a pull each; None if the backward gives no such.

    A complex output of a real input needs two: its imaginary part comes from a cotangent of i. For
    a complex input it is the derivative along the real axis, that of a holomorphic function.
    """
    x, y = base.xs[k], base.ys[o]
    twice = y.dtype.kind == "c" and x.dtype.kind != "c"
    found = np.zeros((rows.size, x.size), np.result_type(x.dtype, y.dtype, np.float64))
    for row, i in enumerate(rows):
        bar = _unit(run, base, k, o, int(i), 1)
        other = _unit(run, base, k, o, int(i), 1j) if twice else np.zeros(x.shape)
        if bar is None or other is None or not bar.shape == other.shape == x.shape:
            return None
        found[row] = (np.conj(bar) + 1j * other if twice else np.conj(bar)).reshape(-1)
    return found


def _unit(run: Run, base: Base, k: int, o: int, i: int, size: complex) -> Array | None:
    """The gradient for a cotangent of one element; None if the backward fails."""
    gs = cotangents.zeros(base)
    gs[o].reshape(-1)[i] = size
    try:
        bar = run.pull(base.xs, gs)[k]
    except Exception:
        return None
    shape: tuple[int, ...] = base.xs[k].shape
    return np.zeros(shape) if bar is None else bar
