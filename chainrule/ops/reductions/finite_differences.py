"""Derivatives estimated from samples on a grid, to second order in the distances."""

from __future__ import annotations

from typing import Any, Literal, cast

from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.indexing.scattering import diff
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.joining import concat
from chainrule.ops.shapes.shaping import Axis, normalize_axes, reshape, roomy


def gradient(
    x: Any,
    *,
    spacing: Any = 1,
    axis: Axis = None,
    edge_order: Literal[1, 2] = 1,
) -> tuple[Any, ...]:
    """The derivatives of the samples `x` along each of `axis` (all for None).

    Shapes: (*s) -> [(*s)].
    `spacing` is the distance of samples, or for each axis the distance or the coordinates (one
    axis). Inside, differences of both neighbours (second order also where distances vary); at the
    ends of order `edge_order`.

    >>> cr.gradient(cr.tensor([0.0, 1.0, 4.0, 9.0]))
    (tensor([1., 2., 4., 5.], dtype=float32),)
    """
    if edge_order not in (1, 2):
        raise ConfigError(f"gradient: edge_order is 1 or 2, not {edge_order!r}")
    axes = normalize_axes(axis, x.ndim)
    several = isinstance(spacing, list | tuple)
    each: list[Any] = list(cast(Any, spacing)) if several else [spacing] * len(axes)
    if len(each) != len(axes):
        raise ShapeError(f"gradient: {len(each)} spacings for {len(axes)} axes")
    few = [a for a in axes if x.shape[a] <= edge_order]
    if few:
        raise ShapeError(
            f"gradient: axis {few[0]} of {tuple(x.shape)} needs more than {edge_order} elements"
        )
    run = roomy(_along)
    return tuple([run(red.floating(x), a, h, edge_order) for a, h in zip(axes, each, strict=True)])


def _along(x: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    """The derivative along one axis. `d` are the distances of neighbours, (n - 1)."""
    n = x.shape[axis]
    lead = (slice(None),) * axis
    if getattr(spacing, "ndim", 0):
        if tuple(spacing.shape) != (n,):
            raise ShapeError(f"gradient: {tuple(spacing.shape)} coordinates for {n} elements")
        d: Any = reshape(diff(spacing), (n - 1, *[1] * (x.ndim - axis - 1)))
    else:
        d = None

    def part(start: int | None, stop: int | None) -> Any:
        return getitem(x, (*lead, slice(start, stop)))

    def step(start: int | None, stop: int | None) -> Any:
        return spacing if d is None else getitem(d, slice(start, stop))

    first = (part(1, 2) - part(0, 1)) / step(0, 1)
    last = (part(-1, None) - part(-2, -1)) / step(-1, None)
    if n == 2:
        return concat([first, last], axis=axis)
    slope_before = (part(1, -1) - part(None, -2)) / step(None, -1)
    slope_after = (part(2, None) - part(1, -1)) / step(1, None)
    before, after = step(None, -1), step(1, None)
    inside = (slope_before * after + slope_after * before) / (before + after)
    if edge_order == 2:  # the slope of the parabola through three points
        first = 2 * first - getitem(inside, (*lead, slice(0, 1)))
        last = 2 * last - getitem(inside, (*lead, slice(-1, None)))
    return concat([first, inside, last], axis=axis)
