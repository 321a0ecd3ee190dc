"""Which elements to show of a Jacobian that is too large: found by halving what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chainrule.verify import cotangents
from chainrule.verify.jacobian import numeric
from chainrule.verify.noise import Base, tangent
from chainrule.verify.numeric import slopes
from chainrule.verify.run import Run, inner
from chainrule.verify.subject import Array

_SHOWN = 24


def elements(run: Run, base: Base, k: int) -> tuple[int, Array, Array] | None:
    """An output, and elements of it and of input k among which some are wrong, and others.

    None if what the backward gives cannot be compared.
    """
    gs = cotangents.random(run, base)
    t = tangent(run.rng, base.xs[k])
    bar = run.pull(base.xs, gs)[k]
    if bar is None:
        bar = np.zeros(t.shape)
    if bar.shape != t.shape or not t.size:
        return None
    j = _halved(t.size, lambda part: _column_error(run, base, k, gs, bar, _only(t, part)))
    column = numeric(run, base, k, np.array([j]))
    at = int(np.argmax([_row_error(run, base, k, j, o, column, None) for o in range(len(gs))]))
    i = _halved(base.ys[at].size, lambda part: _row_error(run, base, k, j, at, column, part))
    near = np.abs(column[at][0][:, 0])
    rows = _among(run, i, base.ys[at].shape, np.argsort(-near)[: _SHOWN // 3])
    return at, rows, _among(run, j, t.shape, np.empty(0, int))


def _halved(size: int, error: Callable[[Array], float]) -> int:
    """The element at the end of a walk that always takes the half with the larger error."""
    part = np.arange(size)
    while part.size > 1:
        halves = part[: part.size // 2], part[part.size // 2 :]
        part = max(halves, key=error)
    return int(part[0])


def _column_error(run: Run, base: Base, k: int, gs: list[Array], bar: Array, t: Array) -> float:
    along = slopes(run, base, {k: t})
    pairs = list(zip(gs, along, strict=True))
    told = inner(bar, t)
    n = sum([inner(np.where(s.resolved, g, 0), s.value) for g, s in pairs])
    return abs(told - n)


def _row_error(
    run: Run,
    base: Base,
    k: int,
    j: int,
    o: int,
    column: list[tuple[Array, Array]],
    part: Array | None,
) -> float:
    """How wrong x_bar[j] is for a random cotangent of output o, of a part of its elements."""
    if o not in cotangents.used(base):
        return 0.0
    gs = cotangents.alone(cotangents.random(run, base), o)
    if part is not None:
        gs[o] = _only(gs[o], part)
    bar = run.pull(base.xs, gs)[k]
    told = 0.0 if bar is None else complex(bar.reshape(-1)[j]).real
    return abs(told - inner(np.ascontiguousarray(gs[o]).reshape(-1), column[o][0][:, 0]))


def _only(x: Array, part: Array) -> Array:
    """x with zeros outside of a part (flat indices)."""
    kept = np.zeros(x.size, x.dtype)
    kept[part] = np.ascontiguousarray(x).reshape(-1)[part]
    return kept.reshape(x.shape)


def _among(run: Run, one: int, shape: tuple[int, ...], also: Array) -> Array:
    """Flat indices: the one, its neighbours along every axis, given ones, some at random."""
    size = int(np.prod(shape))
    at = np.unravel_index(one, shape)
    near: list[int] = [one]
    for axis, n in enumerate(shape):
        for m in range(min(n, 5)):
            place = tuple([m if a == axis else int(v) for a, v in enumerate(at)])
            near.append(int(np.ravel_multi_index(place, shape)))
    drawn = run.rng.integers(size, size=_SHOWN)
    picked = np.unique(np.concatenate([np.array(near), also, drawn]).astype(int))
    if picked.size <= _SHOWN:
        return picked
    return np.unique(np.append(run.rng.permutation(picked)[: _SHOWN - 1], one))
