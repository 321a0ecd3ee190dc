"""One model's flow of gradients: which layers get too little, or too much.

Layers are in the order of the forward pass. `reach[i]` is the largest gradient that arrives at
layer i or at any one before it, relative to the largest of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise, takewhile
from statistics import median
from typing import final

from chainrule.verify.training.facts.layers import Row, Units

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
_BEYOND = 1.8e19
"""The square of a larger gradient is infinite in float32."""
_CALLS = 8
"""So many calls of a layer in a step make a recurrence."""
_EACH_CALL = 1.15
"""There the gradient grows by so much from call to call, in the middle."""
_FAR = 1e6
"""And by so much in all."""
_NOTHING = 1e-8
"""What is left of it is nothing, in float32 and in all that trains with it."""
_MOST = 0.75
"""Share of the calls at which it grows, or shrinks."""
_SAMPLES, _EACH = 64, 16
"""Values of each unit that it takes to call it flat, in all steps that were seen and in each."""

HEADING = ("layer", "kind", "gradient", "parameter", "ratio", "update", "status")
_Table = tuple[tuple[str, ...], ...]


@final
class Model:
    """What was measured of a model; the layers of which each mistake is said."""

    def __init__(self, name: str, rows: Sequence[Row], units: Sequence[Units]) -> None:
        self.name = name
        self.rows = rows
        self.units = units
        self.flowing = _to_the_end_of_numbers([row for row in rows if row.arriving])

    @property
    def is_found(self) -> bool:
        """Whether anything is said of it."""
        some = (self.vanishing, self.exploding, self.turns, self.lost, self.beyond)
        return any(some) or bool(self.dead or self.stuck)

    # --- from layer to layer

    @property
    def has_ended(self) -> bool:
        """Whether its loss has no finite gradient from some step on."""
        steps = len(self.flowing[0].arriving) if self.flowing else 0
        return any(len(row.arriving) > steps for row in self.rows)

    @cached_property
    def _statuses(self) -> list[str]:
        """A status for each layer that holds in every step that was seen."""
        rows = self.flowing
        if len(rows) < 3:
            return ["OK"] * len(rows)
        steps = min([len(row.arriving) for row in rows])
        each = [_of_step([row.arriving[-1 - k] for row in rows]) for k in range(steps)]
        return [s[0] if len(set(s)) == 1 else "OK" for s in zip(*each, strict=True)]

    def _with(self, status: str) -> list[Row]:
        return [r for r, s in zip(self.flowing, self._statuses, strict=True) if s == status]

    @property
    def vanishing(self) -> list[Row]:
        """Layers at which the gradient has vanished."""
        return self._with("VANISHING")

    @property
    def exploding(self) -> list[Row]:
        """Layers at which it has exploded."""
        return self._with("EXPLODING")

    @property
    def flow_table(self) -> _Table:
        """All layers, with their statuses."""
        cut = {row.order: row for row in self.flowing}
        rows = [cut.get(row.order, row) for row in self.rows]
        statuses = zip(self.flowing, self._statuses, strict=True)
        return _table(rows, {row.order: s for row, s in statuses})

    def loss_of(self, code: str) -> tuple[float, float, float, int]:
        """The largest gradient, that of the first layer, the factor for each layer between them,
        and how many these are."""
        arriving = [row.arriving[-1] for row in self.flowing]
        top = max(arriving) if code == "vanishing" else arriving[-1]
        last = [row.order for row in self.flowing if row.arriving[-1] == top][-1]
        gaps = max(1, len([row for row in self.flowing if row.order < last]))
        factor = (arriving[0] / top) ** (1 / gaps) if top and arriving[0] else 0.0
        return top, arriving[0], factor, gaps

    # --- from call to call of one layer, if nothing is wrong from layer to layer

    @property
    def _is_steep(self) -> bool:
        return bool(self.vanishing or self.exploding)

    @cached_property
    def turns(self) -> list[Row]:
        """The layer over whose calls the gradient grows most, if it does so in every step."""
        rows = () if self._is_steep else self.flowing
        steep = [row for row in rows if len(row.turns) >= 2 and all(map(_explodes, row.turns))]
        # the recurrent one is second
        return [max(reversed(steep), key=lambda r: _growth(r.turns[-1]))] if steep else []

    @cached_property
    def lost(self) -> list[Row]:
        """The layer in whose calls the gradient is lost for all layers before it, and these. That a
        recurrence forgets what is long past is usual, if no layer depends on that."""
        rows = () if self._is_steep or self.turns else self.flowing
        for row in rows:
            before = [r for r in rows if r.order < row.order and len(r.turns) == len(row.turns)]
            fades = len(row.turns) >= 2 and all(map(_vanishes, row.turns))
            if before and fades and all(all(map(_is_lost, r.turns, row.turns)) for r in before):
                return [row, *before]
        return []

    @cached_property
    def beyond(self) -> list[Row]:
        """The first layer with a gradient whose square no float32 holds, in every step that was
        seen. An optimizer that sums their squares does not move any more."""
        seen = [row for row in self.rows if row.gradients and max(row.gradients) > 0]
        steps = min([len(row.gradients) for row in seen], default=0)
        most = [max([row.gradients[k] for row in seen]) for k in range(steps)]
        if self._is_steep or self.turns or self.lost or len(most) < 2:
            return []
        if not all(m > _BEYOND for m in most) or any(map(math.isnan, most)):
            return []
        return [next(row for row in seen if row.gradients[-1] > _BEYOND)]

    # --- activations that are flat whenever they were seen

    @cached_property
    def dead(self) -> list[Units]:
        """Relus whose units are all dead."""
        return [same[-1] for same in _always(self.units, Units.is_dead) if _is_enough(same)]

    @cached_property
    def stuck(self) -> list[Units]:
        """Sigmoids and tanhs that are stuck at both ends."""
        return [same[-1] for same in _always(self.units, Units.is_stuck) if _is_enough(same)]

    def behind(self, units: Units) -> Row:
        """The layer that an activation is applied to."""
        return next(row for row in self.rows if row.order == units.order)

    def dead_table(self, units: Sequence[Units]) -> _Table:
        """All layers, those behind which it is so marked."""
        return _table(self.rows, {u.order: "DEAD" for u in units})


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
    """For each layer of one step "OK", or that too little or too much arrives there."""
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


def _table(rows: Sequence[Row], status: Mapping[int, str]) -> _Table:
    def of(row: Row) -> str:
        none = bool(row.gradients) and max(row.gradients) < 0
        return status.get(row.order, "OK") if not none else "NO GRADIENT"

    return (HEADING, *[(row.name, row.kind, *row.numbers, of(row)) for row in rows])


def is_steep(turn: Sequence[float]) -> bool:
    """Whether a gradient explodes, or is lost, over the calls of one step."""
    return _explodes(turn) or _vanishes(turn)


def finite(turn: Sequence[float]) -> list[float]:
    """The norms until they are too large for their dtype."""
    return list(takewhile(math.isfinite, turn))


def _explodes(turn: Sequence[float]) -> bool:
    seen = finite(turn)
    if len(seen) < _CALLS or min(seen) <= 0:
        return False
    ratios = [b / a for a, b in pairwise(seen)]
    grows = sum([r > 1 for r in ratios]) >= _MOST * len(ratios)
    return grows and median(ratios) >= _EACH_CALL and _growth(turn) >= _FAR


def _vanishes(turn: Sequence[float]) -> bool:
    seen = list(takewhile(lambda n: n > 0, turn))
    if len(turn) < _CALLS or len(seen) < _CALLS // 2:
        return False
    ratios = [b / a for a, b in pairwise(seen)]
    shrinks = sum([r < 1 for r in ratios]) >= _MOST * len(ratios)
    return shrinks and median(ratios) <= 1 / _EACH_CALL and turn[-1] <= _NOTHING * turn[0]


def _is_lost(turn: Sequence[float], later: Sequence[float]) -> bool:
    return max(turn) <= _NOTHING * later[0]


def _growth(turn: Sequence[float]) -> float:
    return turn[-1] / turn[0]


def is_short(units: Sequence[Units]) -> bool:
    """Whether something was always flat, and a step more would be enough to say so."""
    every = [*_always(units, Units.is_dead), *_always(units, Units.is_stuck)]
    return any(_is_seen(same) and not _is_enough(same) for same in every)


def _always(units: Sequence[Units], wrong: Callable[[Units], bool]) -> Iterator[Sequence[Units]]:
    """Activations of which it is so whenever they were seen, each step by step."""
    for order, op in sorted({(u.order, u.op) for u in units}):
        same = [u for u in units if (u.order, u.op) == (order, op)]
        if all(map(wrong, same)):
            yield same


def _is_seen(same: Sequence[Units]) -> bool:
    several = all(u.samples >= _EACH and u.count >= 4 for u in same)
    return several and len({u.step for u in same}) >= 2


def _is_enough(same: Sequence[Units]) -> bool:
    return _is_seen(same) and sum([u.samples for u in same]) >= _SAMPLES
