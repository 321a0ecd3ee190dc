"""Examples without the axis of the batch: PyTorch's layers of images take both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from chainrule.errors import ShapeError
from chainrule.ops.shapes.shaping import expand_dims, squeeze


def with_batch_axis(what: str, f: Callable[[Any], Any], x: Any, ndim: int) -> Any:
    """f of a batch (N, C, *size) with `ndim` sizes, or of one example (C, *size)."""
    if x.ndim == ndim + 2:
        return f(x)
    if x.ndim == ndim + 1:
        y = f(expand_dims(x, 0))
        several = isinstance(y, tuple)
        return tuple([squeeze(p, 0) for p in cast(Any, y)]) if several else squeeze(y, 0)
    sizes = ", ".join("DHW"[3 - ndim :])
    raise ShapeError(f"{what}: x is (N, C, {sizes}) or (C, {sizes}), not {tuple(x.shape)}")
