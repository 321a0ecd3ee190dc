"""Cotangents: what comes into a backward, in every memory layout in which it may come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from chainrule.verify.measure.noise import Base, signs
from chainrule.verify.measure.run import Run, inexact
from chainrule.verify.subject import Array


def random(run: Run, base: Base, masks: Sequence[Array] | None = None) -> list[Array]:
    """Contiguous, in the outputs' own dtypes, zero where a mask is False."""
    gs: list[Array] = []
    for o, (y, dtype) in enumerate(zip(base.ys, base.dtypes, strict=True)):
        g = signs(run.rng, y.shape, dtype.kind == "c")
        g = g * np.isfinite(y)
        gs.append(_in_dtype(g if masks is None else g * masks[o], dtype))
    return gs


def used_outputs(base: Base) -> list[int]:
    """Outputs that have elements with a derivative."""
    return [o for o, (y, d) in enumerate(zip(base.ys, base.dtypes, strict=True)) if _counts(y, d)]


def zeros(base: Base) -> list[Array]:
    """Zeros."""
    return [
        _in_dtype(np.zeros(y.shape), dtype) for y, dtype in zip(base.ys, base.dtypes, strict=True)
    ]


def _counts(y: Array, dtype: np.dtype[Any]) -> bool:
    return bool(y.size) and inexact(np.empty(0, dtype))


def one_output(gs: Sequence[Array], o: int) -> list[Array]:
    """Only output o's."""
    return [g if i == o else np.zeros_like(g) for i, g in enumerate(gs)]


def layouts(gs: Sequence[Array]) -> Iterator[tuple[str, list[Array]]]:
    """The same numbers in other layouts, as far as their shapes allow."""
    if any(g.ndim > 1 and min(g.shape) > 1 for g in gs):
        yield "in Fortran order", [np.array(g, order="F") for g in gs]
    if any(g.size > 1 for g in gs):
        yield "with gaps", [_gappy(g) for g in gs]
        yield "with negative strides", [_backwards(g) for g in gs]


def expanded(run: Run, base: Base) -> list[Array]:
    """One number seen everywhere (all strides 0): what `.sum()` sends back."""
    one = [signs(run.rng, (), d.kind == "c") for d in base.dtypes]
    return [
        np.broadcast_to(_in_dtype(np.asarray(v), d), y.shape)
        for v, y, d in zip(one, base.ys, base.dtypes, strict=True)
    ]


def _gappy(g: Array) -> Array:
    """Every second element of a larger array along the last axis."""
    if not g.ndim:
        return g
    room = np.full((*g.shape[:-1], 2 * g.shape[-1]), np.asarray(7.5).astype(g.dtype))
    room[..., ::2] = g
    return room[..., ::2]


def _backwards(g: Array) -> Array:
    """All axes run backwards through memory."""
    turn = (slice(None, None, -1),) * g.ndim
    return np.ascontiguousarray(g[turn])[turn] if g.ndim else g


def _in_dtype(g: Array, dtype: np.dtype[Any]) -> Array:
    """Cotangents of outputs without derivative are zeros."""
    return np.asarray(g, dtype) if inexact(np.empty(0, dtype)) else np.zeros(g.shape)
