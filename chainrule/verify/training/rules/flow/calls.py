"""One layer that is called again and again, as in a recurrent network: how the gradient that
arrives at it grows, or is lost, from its last call back to its first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, takewhile
from statistics import median

from chainrule.verify.finding import Finding
from chainrule.verify.training.facts.layers import Row
from chainrule.verify.training.facts.names import listed
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import origins
from chainrule.verify.where import placed

_CALLS = 8
"""So many calls in a step make a recurrence."""
_GROWTH = 1.15
"""The gradient grows by so much from call to call, in the middle."""
_FAR = 1e6
"""And by so much in all."""
_NOTHING = 1e-8
"""What is left of it is nothing, in float32 and in all that trains with it."""
_MOST = 0.75
"""Share of the calls at which it grows, or shrinks."""


def exploding_turns(model: str, rows: Sequence[Row]) -> list[Finding]:
    """The layer at which it grows most, if it does so in every step that was seen."""
    steep = [row for row in rows if len(row.turns) >= 2 and all(map(_explodes, row.turns))]
    if not steep:
        return []
    row = max(reversed(steep), key=lambda r: _growth(r.turns[-1]))  # the recurrent one is second
    last = row.turns[-1]
    seen = _finite(last)
    factor = _growth(seen) ** (1 / (len(seen) - 1))
    because = (
        f"from the last of {len(last)} calls of {row.name} back to the first the gradient goes "
        f"from {last[0]:.2e} to {last[-1]:.2e}: a factor of {factor:.2g} for each call"
    )
    return [
        finding(
            "warning",
            "exploding",
            because,
            "smaller recurrent weights (orthogonal, of gain 1), a gated cell, fewer steps at a "
            "time, or clip_grad_norm_",
            origins.parameter(row.name) or placed(row.at),
            detail="each call multiplies the gradient by more than 1: its weights are too large",
            subject=model,
            kind="model",
            input=row.name,
        )
    ]


def is_steep(turn: Sequence[float]) -> bool:
    """Whether a gradient explodes, or is lost, over the calls of one step."""
    return _explodes(turn) or _vanishes(turn)


def _explodes(turn: Sequence[float]) -> bool:
    seen = _finite(turn)
    if len(seen) < _CALLS or min(seen) <= 0:
        return False
    ratios = [b / a for a, b in pairwise(seen)]
    grows = sum([r > 1 for r in ratios]) >= _MOST * len(ratios)
    return grows and median(ratios) >= _GROWTH and _growth(turn) >= _FAR


def vanishing_turns(model: str, rows: Sequence[Row]) -> list[Finding]:
    """The layer in whose calls the gradient is lost for all layers before it, in every step. That a
    recurrence forgets what is long past is usual: nothing is said if no layer depends on that."""
    for row in rows:
        before = [r for r in rows if r.order < row.order and len(r.turns) == len(row.turns)]
        if before and len(row.turns) >= 2 and all(map(_vanishes, row.turns)):
            lost = [r for r in before if all(map(_is_lost, r.turns, row.turns))]
            if len(lost) == len(before):
                return [_forgets(model, row, lost)]
    return []


def _vanishes(turn: Sequence[float]) -> bool:
    seen = list(takewhile(lambda n: n > 0, turn))
    if len(turn) < _CALLS or len(seen) < _CALLS // 2:
        return False
    ratios = [b / a for a, b in pairwise(seen)]
    shrinks = sum([r < 1 for r in ratios]) >= _MOST * len(ratios)
    return shrinks and median(ratios) <= 1 / _GROWTH and turn[-1] <= _NOTHING * turn[0]


def _is_lost(turn: Sequence[float], later: Sequence[float]) -> bool:
    return max(turn) <= _NOTHING * later[0]


def _forgets(model: str, row: Row, lost: Sequence[Row]) -> Finding:
    last = row.turns[-1]
    because = (
        f"from the last of {len(last)} calls of {row.name} back to the first the gradient goes "
        f"from {last[0]:.2e} to {last[-1]:.2e}: nothing of it reaches what comes before"
    )
    return finding(
        "warning",
        "vanishing",
        because,
        "recurrent weights of gain 1 (orthogonal), a gated cell with an open forget gate, or "
        "another way from what comes before to the loss",
        placed(row.at),
        detail="each call multiplies the gradient by less than 1",
        subject=model,
        kind="model",
        input=listed([r.name for r in lost]),
    )


def _growth(turn: Sequence[float]) -> float:
    return turn[-1] / turn[0]


def _finite(turn: Sequence[float]) -> Sequence[float]:
    """The norms until they are too large for their dtype."""
    return list(takewhile(math.isfinite, turn))
