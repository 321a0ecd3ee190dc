"""Gradients that explode where the forward is clipped: 1 / max(x, tiny) at x < 0."""

from __future__ import annotations

import math

import numpy as np

from chainrule.verify.measure.probes import Probe
from chainrule.verify.measure.run import norm

_FAR_LARGER = 1e3
"""A gradient that grows so much at another sign is beyond what the forward was made for."""
_FLATTER = 0.1
"""Of a forward that is clipped at another sign, no more is left than this share of its slope."""


def is_beyond(first: Probe, found: Probe, k: int) -> bool:
    """Whether an input's gradient is beyond a clip at a point, as against the first one. What the
    forward is not clipped for has a slope as large as usual."""
    here, there = _size(first, k), _size(found, k)
    is_flat = _slope(found, k) < _FLATTER * _slope(first, k)
    return here > 0 and there > _FAR_LARGER * here and is_flat


def _size(found: Probe, k: int) -> float:
    bar = found.bars[k] if found.bars else None
    return norm(bar * found.tangents[k]) if bar is not None else 0.0


def _slope(found: Probe, k: int) -> float:
    """That of the outputs along the input's tangent, where it is known."""
    rows = [s.value[np.isfinite(s.value) & s.resolved] for s in found.slopes.get(k, ())]
    return math.hypot(*[norm(row) for row in rows]) if rows else 0.0
