"""The table of flow, and what is said of it: which layers get too little, and why.

Layers are in the order of the forward pass. `reach[i]` is the largest gradient that arrives at
layer i or at any one before it, relative to the largest of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from chainrule.verify.finding import Finding, Level
from chainrule.verify.place import Place
from chainrule.verify.training.facts.layers import Row
from chainrule.verify.training.facts.names import listed
from chainrule.verify.training.facts.units import Units
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.rules.flow.calls import exploding_turns, vanishing_turns
from chainrule.verify.training.rules.flow.flat import flat
from chainrule.verify.training.text import origins
from chainrule.verify.where import placed

SMALL = 1e-3
"""A gradient below this share of the largest one has vanished; above its inverse, exploded."""
FACTOR = 0.3
"""So much from layer to layer is usual: plain relu layers as they are initialised give 0.41."""
_ENDLESS = 1e100
"""What a norm counts as that is too large for its dtype."""
GROWTH = 2.0
"""From so much on for each layer a gradient explodes."""
LOST = 1e-6
"""Where that is all that is left, the factor does not matter."""
STEADY = 1e-1
"""What must be left of the loss when the two largest single jumps are not counted."""
_STRAIGHT = 0.7
"""An activation with such a mean derivative takes little from a gradient."""
_BEYOND = 1.8e19
"""The square of a larger gradient is infinite in float32."""

HEADING = ("layer", "kind", "gradient", "parameter", "ratio", "update", "status")


def judge(model: str, rows: Sequence[Row], units: Sequence[Units]) -> list[Finding]:
    """What is to be said of one model."""
    flowing = _to_the_end_of_numbers([row for row in rows if row.arriving])
    ended = any(len(row.arriving) > len(flowing[0].arriving) for row in rows) if flowing else False
    found: list[Finding] = []
    if len(flowing) >= 3:
        status = _statuses(flowing)
        cut = {row.order: row for row in flowing}
        shown = [cut.get(row.order, row) for row in rows]
        table = _table(shown, {r.order: s for r, s in zip(flowing, status, strict=True)})
        for code, word in (("vanishing", "VANISHING"), ("exploding", "EXPLODING")):
            some = [r for r, s in zip(flowing, status, strict=True) if s == word]
            if some:
                level: Level = "error" if ended and code == "exploding" else "warning"
                found.append(_flow(level, code, model, flowing, some, units, table))
    if not found:
        found = exploding_turns(model, flowing) or vanishing_turns(model, flowing)
        found = found or _beyond(model, rows)
    return found + flat(model, rows, units, lambda status: _table(rows, status))


def _statuses(rows: Sequence[Row]) -> list[str]:
    """A status for each layer that holds in every step that was seen."""
    steps = min([len(row.arriving) for row in rows])
    each = [_of_step([row.arriving[-1 - k] for row in rows]) for k in range(steps)]
    return [s[0] if len(set(s)) == 1 else "OK" for s in zip(*each, strict=True)]


def _to_the_end_of_numbers(rows: Sequence[Row]) -> list[Row]:
    """The rows without the steps from the first one on whose loss has no finite gradient, if there
    was one before."""
    steps = min([len(row.arriving) for row in rows], default=0)
    each = [[row.arriving[k - steps] for row in rows] for k in range(steps)]
    bad = [any(map(math.isnan, row)) or math.isinf(row[-1]) for row in each]
    if True not in bad[1:] or bad[0]:
        return list(rows)
    left = bad.index(True) - steps
    return [
        replace(
            r, arriving=r.arriving[:left], gradients=r.gradients[:left], sizes=r.sizes[:left],
            updates=r.updates[:left],
        ) for r in rows
    ]  # fmt: skip


def _of_step(arriving: Sequence[float]) -> list[str]:
    arriving = [min(a, _ENDLESS) for a in arriving]
    largest = max(arriving)
    if math.isnan(sum(arriving)) or largest <= 0:
        return ["OK"] * len(arriving)
    reach = [max(arriving[: i + 1]) / largest for i in range(len(arriving))]
    floor = [min(arriving[: i + 1]) / max(arriving[-1], 1e-300) for i in range(len(arriving))]
    small = 0 < reach[0] <= SMALL and _is_steady(reach, FACTOR)
    large = (
        arriving[-1] > 0
        and floor[0] >= 1 / SMALL
        and _is_steady([1 / f for f in floor], 1 / GROWTH)
    )
    return [
        "VANISHING" if small and r <= SMALL else "EXPLODING" if large and f >= 1 / SMALL else "OK"
        for r, f in zip(reach, floor, strict=True)
    ]


def _is_steady(reach: Sequence[float], factor: float) -> bool:
    """Whether the gradient is lost from layer to layer, rather than at one or two places."""
    drops = sorted([a / b for a, b in pairwise(reach) if b > 0])
    layers = max(1, len([d for d in drops if d < 1]))
    fast = reach[0] ** (1 / layers) <= factor or reach[0] <= LOST
    return fast and math.prod(drops[2:]) <= STEADY


def _table(rows: Sequence[Row], status: Mapping[int, str]) -> tuple[tuple[str, ...], ...]:
    def of(row: Row) -> str:
        none = bool(row.gradients) and max(row.gradients) < 0
        return status.get(row.order, "OK") if not none else "NO GRADIENT"

    return (HEADING, *[(row.name, row.kind, *row.numbers, of(row)) for row in rows])


def _flow(
    level: Level,
    code: str,
    model: str,
    rows: Sequence[Row],
    some: Sequence[Row],
    units: Sequence[Units],
    table: tuple[tuple[str, ...], ...],
) -> Finding:
    first, last = rows[0].arriving[-1], rows[-1].arriving[-1]
    top = max([row.arriving[-1] for row in rows]) if code == "vanishing" else last
    where = [row.order for row in rows if row.arriving[-1] == top]
    gaps = max(1, len([row for row in rows if row.order < where[-1]]))
    factor = (first / top) ** (1 / gaps) if top and first else 0.0
    because = (
        f"from {rows[-1].name} back to {rows[0].name} the gradient goes from {top:.2e} to "
        f"{first:.2e}: a factor of {factor:.2g} for each of {gaps} layers"
    )
    reason, advice, origin = _reason(code, units)
    return finding(
        level,
        code,
        because,
        advice,
        origin or placed(some[0].at),
        detail=reason,
        subject=model,
        kind="model",
        input=listed([row.name for row in some]),
        table=table,
    )


def _reason(code: str, units: Sequence[Units]) -> tuple[str, str, Place | None]:
    """Why, as far as the activations tell, what to do about it, and where that is known."""
    if code == "exploding":
        return (
            "each layer multiplies the gradient by more than 1: its weights are too large",
            "smaller initial weights (variance 1/fan-in, 2/fan-in before relu), a norm between "
            "the layers, or clip_grad_norm_",
            origins.weights(),
        )
    squashed = [u for u in units if u.op in ("sigmoid", "tanh")]
    if len(squashed) >= 2 and min([u.slope for u in squashed]) < _STRAIGHT:
        op = squashed[0].op
        same = [u for u in squashed if u.op == op]
        slope = sum([u.slope for u in same]) / len(same)
        share = sum([u.saturated for u in same]) / len(same)
        most = " (never more than 0.25)" if op == "sigmoid" else ""
        return (
            f"{len({u.order for u in same})} layers of {op}: its mean derivative is {slope:.3g}"
            f"{most}, {share:.0%} of the units are saturated",
            "relu or gelu instead, with weights of variance 2/fan-in; or residual connections "
            "(x + f(x)) and a norm in each layer",
            origins.activation(op),
        )
    small = "each layer multiplies the gradient by less than 1: its initial weights are too small"
    rule = "1/fan-in (2/fan-in before relu: nn.init.kaiming_normal_)"
    return (
        small if units else f"{small}, or what is between the layers is flat (sigmoid, tanh)",
        f"initial weights of variance {rule}, residual connections, or a norm in each layer",
        origins.weights() if units else None,
    )


def _beyond(model: str, rows: Sequence[Row]) -> list[Finding]:
    """Gradients whose squares no float32 holds, in every step that was seen: whatever one layer
    they come through. An optimizer that sums their squares does not move any more."""
    seen = [row for row in rows if row.gradients and max(row.gradients) > 0]
    steps = min([len(row.gradients) for row in seen], default=0)
    most = [max([row.gradients[k] for row in seen]) for k in range(steps)]
    if len(most) < 2 or not all(m > _BEYOND for m in most) or any(map(math.isnan, most)):
        return []
    first = next(row for row in seen if row.gradients[-1] > _BEYOND)
    because = (
        f"the gradient of {first.name} has norm {first.gradients[-1]:.2e}: its square is larger "
        "than what float32 can hold (3.4e38)"
    )
    return [
        finding(
            "warning",
            "exploding",
            because,
            "smaller initial weights (of a recurrence: orthogonal, of gain 1), a gated cell, or "
            "clip_grad_norm_",
            origins.filled(first.name) or origins.weights() or placed(first.at),
            subject=model,
            kind="model",
            input=first.name,
        )
    ]
