"""Resizing x (N, C, *size) by interpolation along each of the last axes in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops.indexing.selection import take
from chainrule.ops.shapes.shaping import reshape
from chainrule.ops.windows.adaptive_pooling import adaptive_avg_pool
from chainrule.ops.windows.windows import Sizes, sizes_of

Mode = Literal["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"]
_AXES: dict[str, int | None] = {
    "nearest": None, "nearest-exact": None, "area": None, "linear": 1, "bilinear": 2, "bicubic": 2,
    "trilinear": 3,
}  # fmt: skip
"""The modes: of x with how many axes behind the channels."""
_SHARPNESS = -0.75
"""Of the cubic through four elements, as in PyTorch. Keys 1981, doi:10.1109/TASSP.1981.1163711."""


def interpolate(
    x: Any,
    size: Sizes | None = None,
    *,
    scale_factor: float | Sequence[float] | None = None,
    mode: Mode = "nearest",
    align_corners: bool = False,
) -> Any:
    """x (N, C, *size) resized to `size`, or by `scale_factor` (rounded down), as in PyTorch.

    Shapes: (N, C, *s) -> (N, C, *size) if size is not None;
        (N, C, *s) -> (N, C, *[int(n * at(scale_factor, i)) for i, n in enumerate(s)]).
    "nearest": element floor(i n / m) for place i of m; "nearest-exact": floor((i + 1/2) n / m).
    "linear" (3 axes), "bilinear" (4) and "trilinear" (5): between the two nearest elements, by
    distance, where place i is (i + 1/2) n / m - 1/2, within the array; with `align_corners`
    i (n - 1) / (m - 1), so that first and last elements stay. "bicubic" (4 axes): a cubic through
    the four nearest elements. "area": means of cells, as `adaptive_avg_pool`. A scale factor stands
    for m / n. Real or complex floats, the same dtype out.

    >>> nn.functional.interpolate(cr.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]], dtype=float32)
    """
    n = x.ndim - 2
    if mode not in _AXES or n < 1 or _AXES[mode] not in (None, n):
        raise ConfigError(
            "interpolate: modes are nearest, nearest-exact, area, linear (x with 3 axes), bilinear "
            f"and bicubic (4 axes) and trilinear (5 axes), not {mode!r} with x {tuple(x.shape)}"
        )
    if x.dtype.kind not in INEXACT:
        raise DtypeError(f"interpolate: needs floats, not {x.dtype}; use astype first")
    old = tuple(x.shape[2:])
    if 0 in old:
        raise ShapeError(f"interpolate: x {tuple(x.shape)} has no elements to choose from")
    new, steps = _steps(old, size, scale_factor)
    if mode == "area":
        return adaptive_avg_pool(x, new)
    if mode.startswith("nearest"):
        return _nearest(x, new, steps, 0.5 * (mode != "nearest"))
    for axis, (m, step) in enumerate(zip(new, steps, strict=True), 2):
        x = _between(x, axis, m, step, align_corners, mode == "bicubic")
    return x


def _nearest(x: Any, new: tuple[int, ...], steps: list[float], shift: float) -> Any:
    """Elements of each flattened size, whose places are chosen along each axis."""
    lead, old = tuple(x.shape[:2]), tuple(x.shape[2:])
    places = _places(old, new, tuple(steps), shift)
    return reshape(take(reshape(x, (*lead, math.prod(old))), places, axis=2), (*lead, *new))


@lru_cache(maxsize=16)
def _places(
    old: tuple[int, ...], new: tuple[int, ...], steps: tuple[float, ...], shift: float
) -> Any:
    places = np.zeros((), np.int64)
    for n, m, step in zip(old, new, steps, strict=True):
        at = np.floor((np.arange(m) + shift) * step).astype(np.int64)
        places = (places * n)[..., None] + np.minimum(at, n - 1)
    places = places.ravel()
    places.flags.writeable = False
    return places


def _steps(old: tuple[int, ...], size: Any, factor: Any) -> tuple[tuple[int, ...], list[float]]:
    """The new sizes, and how many old elements a new one steps over."""
    if (size is None) == (factor is None):
        raise ConfigError("interpolate: give either size or scale_factor")
    if size is not None:
        new = sizes_of("interpolate", "size", size, len(old))
        return new, [n / m for n, m in zip(old, new, strict=True)]
    factors = [factor] * len(old) if isinstance(factor, int | float) else list(factor)
    if len(factors) != len(old) or min(factors) <= 0:
        raise ConfigError(f"interpolate: scale_factor is {len(old)} numbers > 0, not {factor!r}")
    sizes = [int(n * f) for n, f in zip(old, factors, strict=True)]
    return sizes_of("interpolate", "size", sizes, len(old)), [1 / f for f in factors]


def _between(x: Any, axis: int, m: int, step: float, align_corners: bool, cubic: bool) -> Any:
    """`m` places along `axis`, each between two elements, or four."""
    n = x.shape[axis]
    if align_corners:
        at = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
    else:
        at = (np.arange(m) + 0.5) * step - 0.5
    at = at if cubic else np.maximum(at, 0)
    low = np.floor(at).astype(np.int64)
    low = low if cubic else np.minimum(low, n - 1)
    t = at - low
    y: Any = None
    for offset, weight in enumerate(cubic_weights(t), -1) if cubic else [(0, 1 - t), (1, t)]:
        share = weight.reshape(-1, *[1] * (x.ndim - axis - 1)).astype(x.dtype)
        part = take(x, np.clip(low + offset, 0, n - 1), axis=axis) * share
        y = part if y is None else y + part
    return y


def cubic_weights(t: Any) -> list[Any]:
    """Of the elements at -1, 0, 1 and 2, for a place at a distance t behind that at 0."""
    return [_far(t + 1), _near(t), _near(1 - t), _far(2 - t)]


def _near(t: Any) -> Any:
    """The weight of an element at a distance up to 1."""
    return ((_SHARPNESS + 2) * t - (_SHARPNESS + 3)) * t * t + 1


def _far(t: Any) -> Any:
    """The weight of an element at a distance from 1 to 2."""
    return ((_SHARPNESS * t - 5 * _SHARPNESS) * t + 8 * _SHARPNESS) * t - 4 * _SHARPNESS
