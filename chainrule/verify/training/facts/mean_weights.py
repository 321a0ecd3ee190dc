"""What it changes that means over few elements count as much as means over many: the gradient of a
step is made again of what each pass brought, weighted by their counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.training.facts.values import are_few
from chainrule.verify.training.record.engine import Engine, Share

_ELEMENTS = 5_000_000
"""Elements of gradients that are copied after each pass."""
_STEPS = 3
"""Steps of which the gradient is made again."""


@final
@dataclass(eq=False)
class Weighed:
    """The gradients of an optimizer, pass by pass, weighted by the counts."""

    off: list[float] = field(default_factory=list[float])
    """For each step how far its gradient is from that of the mean over all elements."""
    _before: dict[int, Array] = field(default_factory=dict[int, Array])
    _sums: dict[int, Array] = field(default_factory=dict[int, Array])
    _counts: list[float] = field(default_factory=list[float])
    _several: bool = False
    """Whether the last step had more than one pass."""

    def add(self, engine: Engine, params: Sequence[Any], share: Share | None, first: bool) -> None:
        """A pass is over; `first` if the gradients were empty before it."""
        held = {id(p): p for p in params if p.grad is not None}
        if first:
            self._drop()
        is_late = not first and not self._counts  # a pass before it of this step was not heard
        known = self._several and len(self.off) < _STEPS and not is_late
        if share is None or not known or not are_few(list(held.values()), _ELEMENTS):
            self._drop()
            return
        now = {key: engine.array(p.grad).astype(np.float64) for key, p in held.items()}
        for key, g in now.items():
            part = share.count * (g - self._before.get(key, 0.0))
            self._sums[key] = self._sums.get(key, 0.0) + part
        self._before = now
        self._counts.append(share.count)

    def step(self, passes: int) -> None:
        """Compare the gradient that the step uses with that of the mean over all elements."""
        self._several = passes > 1  # who takes a step after each pass pays nothing
        every = sum(self._counts)
        if len(set(self._counts)) > 1 and every > 0:
            factor = len(self._counts) / every
            right = {key: factor * g for key, g in self._sums.items()}
            difference = [float(np.sum((self._before[k] - g) ** 2)) for k, g in right.items()]
            size = sum([float(np.sum(g**2)) for g in right.values()])
            off = (sum(difference) / size) ** 0.5 if size else 0.0
            self.off += [off] if math.isfinite(off) else []
        self._drop()

    def _drop(self) -> None:
        self._before, self._sums, self._counts = {}, {}, []
