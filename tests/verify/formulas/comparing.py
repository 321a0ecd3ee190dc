"""Whether values are alike, up to what a row leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np


def alike(xs: Sequence[Any], ys: Sequence[Any], up_to: str, rtol: float = 1e-6) -> bool:
    """Values at several points, of one shape at each: a factor is the same at all points, what is
    shifted as well is so at each point by itself. Tuples are compared item by item."""
    if any(isinstance(x, tuple) for x in (*xs, *ys)):
        return _tuples_alike(xs, ys, up_to, rtol)
    xs = [np.asarray(x, float).squeeze() for x in xs]
    ys = [np.asarray(y, float).squeeze() for y in ys]
    if [x.shape for x in xs] != [y.shape for y in ys]:
        return False
    if not all(np.isfinite(x).all() for x in (*xs, *ys)):
        return False
    if up_to == "shift and scale":
        pairs = zip(xs, ys, strict=True)
        return all(_proportional(x - x.mean(), y - y.mean(), "scale", rtol) for x, y in pairs)
    x, y = (np.concatenate([a.ravel() for a in some]) for some in (xs, ys))
    return _proportional(x, y, up_to, rtol)


def _tuples_alike(xs: Sequence[Any], ys: Sequence[Any], up_to: str, rtol: float) -> bool:
    if not all(isinstance(x, tuple) for x in (*xs, *ys)) or len(xs[0]) != len(ys[0]):
        return False
    items = zip(zip(*xs, strict=True), zip(*ys, strict=True), strict=True)
    return all(alike(a, b, up_to, rtol) for a, b in items)


def _proportional(x: Any, y: Any, up_to: str, rtol: float) -> bool:
    factor = 1.0 if up_to == "" or not np.any(y) else float((x * y).sum() / (y * y).sum())
    if factor == 0 or (factor < 0 and up_to != "factor"):
        return not np.any(x) and not np.any(y)
    size = float(np.abs(x).max(initial=0))
    return bool(np.allclose(x, factor * y, rtol=rtol, atol=rtol * size))


def is_one_of(
    points: Sequence[Sequence[Any]], expected: Sequence[Any], up_to: str, rtol: float = 1e-6
) -> bool:
    """Whether a value at several points is one of the variants at these."""
    return any(alike(v, expected, up_to, rtol) for v in zip_longest(*points))
