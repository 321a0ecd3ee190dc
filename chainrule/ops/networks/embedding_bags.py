"""Rows of a table put together by bags of indices: their sums, means or maxima."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from chainrule.engine.arrays import operand
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.scatter_reductions import scatter_reduce
from chainrule.ops.indexing.selection import where
from chainrule.ops.networks.composite import embedding
from chainrule.ops.reductions.reduction import max as maximum
from chainrule.ops.reductions.reduction import sum as total
from chainrule.ops.shapes.shaping import astype, broadcast_to, expand_dims

Bag = Literal["sum", "mean", "max"]


def embedding_bag(
    indices: Any,
    weight: Any,
    offsets: Any = None,
    *,
    mode: Bag = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Rows of `weight` at `indices`, those of each bag put together, as in PyTorch.

    Shapes: (B, L), (N, C) -> (B, C); (L), (N, C), (B) -> (M, C).
    Bags are the rows of indices (B, L). Of a flat list (L), a bag begins at each of the `offsets`;
    with `include_last_offset` the last offset is the end of the last bag. Rows of `padding_idx` do
    not count; an empty bag is 0. Rows may be weighted where they are summed.

    >>> nn.functional.embedding_bag(cr.tensor([[0, 1]]), cr.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 3.]], dtype=float32)
    """
    if mode not in ("sum", "mean", "max"):
        raise ConfigError(f"embedding_bag: mode is 'sum', 'mean' or 'max', not {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise ConfigError(f"embedding_bag: per_sample_weights need mode 'sum', not {mode!r}")
    if (indices.ndim, offsets is None) not in ((2, True), (1, False)):
        raise ShapeError(
            "embedding_bag: indices are (B, L), or (L) with offsets (B), not "
            f"{tuple(indices.shape)} {'without' if offsets is None else 'with'} offsets"
        )
    rows = embedding(weight, indices, padding_idx=padding_idx)
    if per_sample_weights is not None:
        rows = rows * expand_dims(per_sample_weights, -1)
    padding = None if padding_idx is None else padding_idx % weight.shape[0]
    counts = expand_dims(_counts(indices, padding), -1)
    if offsets is None:
        return _together(mode, where(counts, rows, _empty(mode)), counts, rows.dtype)
    return _flat(mode, rows, counts, _bags(indices, offsets, include_last_offset))


def _counts(indices: Any, padding_idx: int | None) -> Any:
    """Which of them count."""
    if padding_idx is None:
        return np.ones(indices.shape, bool)
    return ew.not_equal(indices, padding_idx)


def _empty(mode: Bag) -> float:
    return -np.inf if mode == "max" else 0.0


def _together(mode: Bag, rows: Any, counts: Any, dtype: Any) -> Any:
    """(B, L, C) -> (B, C)."""
    number = total(astype(counts, dtype), axis=1)
    if mode == "max":
        return where(number > 0, maximum(rows, axis=1), 0)
    y = total(rows, axis=1)
    return y / ew.maximum(number, 1) if mode == "mean" else y


def _bags(indices: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, int]:
    """The number of each index's bag, and how many bags there are."""
    starts: Any = np.asarray(operand(getattr(offsets, "value", offsets)))
    ends = starts[-1:] if include_last_offset else np.array([indices.shape[0]])
    starts = starts[:-1] if include_last_offset else starts
    if starts.ndim != 1 or (starts.size and starts[0] != 0) or (np.diff(starts) < 0).any():
        raise ShapeError("embedding_bag: offsets are one after the other, and the first is 0")
    if ends[0] != indices.shape[0] or (starts > indices.shape[0]).any():
        raise ShapeError(f"embedding_bag: offsets end where the {indices.shape[0]} indices end")
    places = np.arange(int(indices.shape[0]))
    at: Any = np.searchsorted(starts, places, side="right") - 1
    return at, len(starts)


def _flat(mode: Bag, rows: Any, counts: Any, bags: tuple[Any, int]) -> Any:
    at, number = bags
    place = np.broadcast_to(at[:, None], rows.shape)
    how = {"sum": "sum", "mean": "sum", "max": "amax"}[mode]
    start = np.full((number, rows.shape[1]), _empty(mode), rows.dtype)
    counted = where(counts, rows, _empty(mode))
    y = scatter_reduce(start, 0, place, counted, how)  # pyright: ignore[reportArgumentType]
    many = astype(broadcast_to(counts, rows.shape), rows.dtype)
    number = scatter_reduce(np.zeros(start.shape, rows.dtype), 0, place, many, "sum")
    if mode == "max":
        return where(number > 0, y, 0)
    return y / ew.maximum(number, 1) if mode == "mean" else y
