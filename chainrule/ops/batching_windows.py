"""Many examples at once for ops that slide windows or go by index arrays (see `batching.py`).

The examples become part of an axis that the op works through anyway. This is the batch, the
channels or the groups of a convolution, or an axis of an index array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import apply
from chainrule.ops.batching import Batched, align_ranks, batch, everywhere, one_by_one
from chainrule.ops.complex import Abs, Angle, Complex, Imag, Real
from chainrule.ops.families import broadcast_to
from chainrule.ops.indexing.index_arrays import Index, IndexAdd
from chainrule.ops.indexing.scatter_reductions import ScatterExtremum
from chainrule.ops.indexing.scattering import LastWriter
from chainrule.ops.indexing.selection import where
from chainrule.ops.shapes.shaping import moveaxis, reshape
from chainrule.ops.windows.convolution_forms import (
    Convolution,
    Convolve,
    ConvolveInput,
    ConvolveWeight,
    Unfold,
)


@batch.register(Real)
@batch.register(Imag)
@batch.register(Abs)
@batch.register(Angle)
@batch.register(Complex)
def _(op: Any, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(op, *align_ranks(xs, batched))


# --- Convolution ---------------------------------------------------------------------------------

_AXES = {"x": "NGC", "w": "GOC", "g": "NGO"}
"""The first axes of the operands of a convolution, with that of the groups on its own."""


@batch.register(Convolve)
@batch.register(ConvolveInput)
@batch.register(ConvolveWeight)
def _(op: Convolution, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    """One operand batched: the examples join the axis that it shares with the result alone. Both:
    each example is a group.
    """
    own = [role for role, b in zip(op.ins, batched, strict=True) if b]
    if len(own) == 2:
        axis, groups = "G", op.groups * size
    else:
        axis, groups = next(a for a in _AXES[own[0]] if a in _AXES[op.out] and a != "G"), op.groups
    folded = [
        _fold_examples(x, _AXES[role], axis, op.groups) if b else x
        for role, x, b in zip(op.ins, xs, batched, strict=True)
    ]
    return _unfold_examples(
        apply(type(op)(op.windows, groups), *folded), _AXES[op.out], axis, op, size
    )


def _fold_examples(x: Any, axes: str, axis: str, groups: int) -> Any:
    """(size, *one example) with the examples inside `axis`, the slower part of it."""
    shape = tuple(x.shape[1:])
    at, to = axes.index("G"), axes.index(axis)
    split = (*shape[:at], groups, shape[at] // groups, *shape[at + 1 :])
    moved = moveaxis(reshape(x, (x.shape[0], *split)), 0, to)
    joined = [x.shape[0] * n if i == to else n for i, n in enumerate(split)]
    return reshape(moved, (*joined[:at], joined[at] * joined[at + 1], *joined[at + 2 :]))


def _unfold_examples(y: Any, axes: str, axis: str, op: Convolution, size: int) -> Any:
    """The way back of `_fold_examples`."""
    shape = tuple(y.shape)
    at, to = axes.index("G"), axes.index(axis)
    groups = op.groups * (size if axis == "G" else 1)
    split = (*shape[:at], groups, shape[at] // groups, *shape[at + 1 :])
    parts = moveaxis(reshape(y, (*split[:to], size, split[to] // size, *split[to + 1 :])), to, 0)
    one = tuple(parts.shape[1:])
    return reshape(parts, (size, *one[:at], one[at] * one[at + 1], *one[at + 2 :]))


@batch.register
def _(op: Unfold, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    (x,) = xs
    y = apply(op, reshape(x, (size * x.shape[1], *x.shape[2:])))
    return reshape(y, (size, x.shape[1], *y.shape[1:]))


# --- Index arrays --------------------------------------------------------------------------------

_WHOLE = (None, None, None)


def _landing(op: Index | IndexAdd, rank: int, ndim: int) -> int | None:
    """Where NumPy puts the axes of the index arrays (`rank` of them) in a result of `ndim` axes.

    None: at the front because other keys stand between them. Integers count as arrays there.
    """
    key = op.template
    at = [i for i, k in enumerate(key) if isinstance(k, str | int)]
    if at[-1] - at[0] >= len(at):
        return None
    before, after = key[: at[0]], key[at[-1] + 1 :]
    return ndim - rank - len(after) if Ellipsis in before else len(before)


def _rank(arrays: Sequence[Any], batched: Batched) -> int:
    """How many axes the index arrays of one example have together."""
    return max([len(a.shape) - b for a, b in zip(arrays, batched, strict=True)])


def _of_bools(arrays: Sequence[Any]) -> bool:
    """Whether one is of bools, which stands for several arrays of one axis."""
    return any(a.dtype.kind == "b" for a in arrays)


def _with_example_index(arrays: Sequence[Any], batched: Batched, rank: int, size: int) -> list[Any]:
    """The number of the example as an index array, and all others so that they go with it."""
    return [np.arange(size).reshape(size, *[1] * rank), *align_ranks(arrays, batched, rank)]


def _shift_axes(rank: int, start: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Index axes behind that of the examples, and where they belong in an example at `start`."""
    return tuple(range(1, 1 + rank)), tuple(range(1 + start, 1 + start + rank))


@batch.register
def _(op: Index, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    (x, *arrays), own = xs, batched[1:]
    if _of_bools(arrays):
        return one_by_one(op, xs, batched, size)
    rank = _rank(arrays, own)
    if not any(own):
        y = apply(Index((_WHOLE, *op.template)), x, *arrays)
        return y if _landing(op, rank, y.ndim - 1) is not None else moveaxis(y, rank, 0)
    if not batched[0]:
        y = apply(op, x, *align_ranks(arrays, own, rank))
        return moveaxis(y, _landing(op, rank, y.ndim - 1) or 0, 0)
    template = ("index array", *op.template)
    y = apply(Index(template), x, *_with_example_index(arrays, own, rank, size))
    start = _landing(op, rank, y.ndim - 1)
    return moveaxis(y, *_shift_axes(rank, start)) if start else y


@batch.register
def _(op: IndexAdd, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    (g, *arrays), own = xs, batched[1:]
    if _of_bools(arrays):
        return one_by_one(op, xs, batched, size)
    rank, shape = _rank(arrays, own), (size, *op.shape)
    if not batched[0]:
        g = broadcast_to(g, (size, *g.shape))
    start = _landing(op, rank, g.ndim - 1)
    if not any(own):
        placed = g if start is not None else moveaxis(g, 0, rank)
        return apply(IndexAdd((_WHOLE, *op.template), shape), placed, *arrays)
    placed = moveaxis(g, *_shift_axes(rank, start)[::-1]) if start else g
    template = ("index array", *op.template)
    return apply(IndexAdd(template, shape), placed, *_with_example_index(arrays, own, rank, size))


# --- Scattering ----------------------------------------------------------------------------------


def _apart(places: Any, step: int, size: int) -> Any:
    """Flat places (size, ...) in the examples as places in all of them laid end to end."""
    return places + np.arange(size).reshape(size, *[1] * (places.ndim - 1)) * step


@batch.register
def _(op: LastWriter, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    (places,) = xs
    each = math.prod(places.shape[1:])
    writer = apply(LastWriter(size * op.size), _apart(places, op.size, size))
    rows = reshape(writer, (size, op.size))
    return where(rows >= 0, _apart(rows, -each, size), rows)


@batch.register
def _(op: ScatterExtremum, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    x, source, places = everywhere(xs, batched, size)
    n = int(x.shape[1])
    flat = [reshape(v, (-1,)) for v in (x, source, _apart(places, n, size))]
    return reshape(apply(op, *flat), (size, n))
