"""Resizing x (N, C, *size) by interpolation along each of the last axes in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from chainrule.dtypes import INEXACT
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops.selection import take
from chainrule.ops.windows import Sizes, sizes_of

Mode = Literal["nearest", "linear", "bilinear"]
_AXES: dict[str, int | None] = {"nearest": None, "linear": 1, "bilinear": 2}


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
    "nearest": element floor(i n / m) for place i of m. "linear" (3 axes) and "bilinear" (4 axes):
    between the two nearest elements, by distance, where place i is (i + 1/2) n / m - 1/2, within
    the array; with `align_corners` i (n - 1) / (m - 1), so that first and last elements stay. A
    scale factor stands for m / n. Real or complex floats, the same dtype out.
    """
    n = x.ndim - 2
    if mode not in _AXES or n < 1 or _AXES[mode] not in (None, n):
        raise ConfigError(
            "interpolate: modes are nearest, linear (x with 3 axes) and bilinear (4 axes), not "
            f"{mode!r} with x {tuple(x.shape)}"
        )
    if x.dtype.kind not in INEXACT:
        raise DtypeError(f"interpolate: needs floats, not {x.dtype}; use astype first")
    old = tuple(x.shape[2:])
    if 0 in old:
        raise ShapeError(f"interpolate: x {tuple(x.shape)} has no elements to choose from")
    new, steps = _steps(old, size, scale_factor)
    for axis, (m, step) in enumerate(zip(new, steps, strict=True), 2):
        if mode == "nearest":
            at = np.floor(np.arange(m) * step).astype(np.int64)
            x = take(x, np.minimum(at, x.shape[axis] - 1), axis=axis)
        else:
            x = _between(x, axis, m, step, align_corners)
    return x


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


def _between(x: Any, axis: int, m: int, step: float, align_corners: bool) -> Any:
    """`m` places along `axis`, each between two elements."""
    n = x.shape[axis]
    if align_corners:
        at = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
    else:
        at = np.maximum((np.arange(m) + 0.5) * step - 0.5, 0)
    low = np.minimum(np.floor(at).astype(np.int64), n - 1)
    high = np.minimum(low + 1, n - 1)
    share = (at - low).reshape(-1, *[1] * (x.ndim - axis - 1)).astype(x.dtype)
    return take(x, low, axis=axis) * (1 - share) + take(x, high, axis=axis) * share
