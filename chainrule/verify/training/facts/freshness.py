"""Whether a parameter has the values that it was made with: drawn, or constant, and then left.

What was trained, loaded or copied has other ones, or was written to more often than once. Where a
number of elements tells too little, the answer is no.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST = 4096
"""Elements that are looked at."""
_FEW = 32
"""Elements below which a distribution shows nothing."""
_WRITES = 2
"""Times that initialization writes: the layer's own, and one of the user's."""
_CHANCE = 1.95
"""Kolmogorov's distance times the root of the number: one sample in a thousand has more."""


def are_fresh(params: Sequence[Any]) -> bool:
    """Whether none was changed since it was made, as far as values and versions show."""
    sizes = [math.prod(p.shape) for p in params]
    drawn = [p for p, n in zip(params, sizes, strict=True) if n >= _FEW]
    return all(_is_fresh(p) for p in params) and bool(drawn or all(_is_constant(p) for p in params))


def _is_fresh(p: Any) -> bool:
    version = getattr(p, "_version", None)
    if version is None or version > _WRITES:
        return False
    v = _values(p)
    if _is_constant(p):
        return bool(v.size) and (v.size > 1 or v[0] in (0.0, 1.0))
    if v.size < _FEW:
        return version > 0
    top = float(np.max(np.abs(v)))
    uniform = version > 0 and _distance(v, (v / top + 1) / 2) < _CHANCE
    return uniform or _distance(v, _normal(v)) < _CHANCE


def _is_constant(p: Any) -> bool:
    v = _values(p)
    return bool(np.all(v == v[:1]))


def _values(p: Any) -> NDArray[np.float64]:
    """Elements of all of it, in equal steps."""
    flat = p.detach().reshape(-1)
    step = max(1, math.prod(p.shape) // _MOST)
    return np.asarray(flat[::step].double().cpu().numpy(), np.float64)


def _distance(v: NDArray[np.float64], at: NDArray[np.float64]) -> float:
    """Kolmogorov's distance of a sample to a distribution whose function has these values."""
    n = v.size
    level = np.sort(at)
    ranks = np.arange(n + 1) / n
    return float(np.sqrt(n) * max(np.max(ranks[1:] - level), np.max(level - ranks[:-1])))


def _normal(v: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in v.tolist()])
