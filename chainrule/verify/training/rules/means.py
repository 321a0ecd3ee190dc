"""Means of means: passes that are added up, each of the mean over its own elements, of which the
losses leave out some (padding, `ignore_index`), here more and there less.

Divided by their number they give each pass the same weight, however few elements it has. What that
changes is measured: the gradient of a step is made again of what each pass brought, weighted by
their counts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.op import Array
from chainrule.verify.finding import Finding
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.record.scale import Share
from chainrule.verify.training.rules.finding import finding

if TYPE_CHECKING:
    from chainrule.verify.training.rules.accumulated import Micro, Row


_ELEMENTS = 5_000_000
"""Elements of gradients that are copied after each pass."""
_STEPS = 3
"""Steps of which the gradient is made again."""
_MATTERS = 0.1
"""Relative difference of the gradients from which on it is more than a note."""


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
        known = self._several and len(self.off) < _STEPS and not self._is_late(first)
        if share is None or not known or not _are_few(held.values()):
            self._drop()
            return
        now = {key: engine.array(p.grad).astype(np.float64) for key, p in held.items()}
        for key, g in now.items():
            part = share.count * (g - self._before.get(key, 0.0))
            self._sums[key] = self._sums.get(key, 0.0) + part
        self._before = now
        self._counts.append(share.count)

    def _is_late(self, first: bool) -> bool:
        """Whether a pass before this one of the same step was not heard."""
        return not first and not self._counts

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


def _are_few(params: Collection[Any]) -> bool:
    """Whether gradients are dense, real and small enough to be copied."""
    plain = not any(
        getattr(p.grad, "is_sparse", False) or "complex" in str(p.dtype) for p in params
    )
    return plain and sum([math.prod(p.shape) for p in params]) <= _ELEMENTS


def mean_of_means(row: Row) -> Finding | None:
    """The finding, if each loss is a mean over its own count, divided by the number of passes."""
    passes = [m for group in row.groups for m in group]
    shares = [_own(m, len(group)) for group in row.groups for m in group]
    known = [s for s in shares if s is not None]
    if len(known) < len(shares) or not any(s.count < s.elements for s in known):
        return None
    usual = len(row.groups[0])
    off = row.weighed.off
    if usual < 2 or len(off) < 2:
        return None
    counts = ", ".join([f"{s.count:g}" for s in known[:usual]])
    because = (
        f"each of {usual} backward passes for a step is that of a mean over its own elements, of "
        f"which there are {counts} in the first step, divided by {usual}: few count as much as "
        "many. The gradient of the mean over all is another one: they differ by "
        f"{median(off):.0%}"
    )
    single = all(m.single for m in passes)
    words = (
        'add up sums (reduction="sum") and divide each by the number of elements in all passes '
        "for the step"
    )
    return finding(
        "warning" if median(off) >= _MATTERS and not single else "note",
        "accumulation",
        because,
        words,
        passes[0].place,
        detail="each pass is of one example: their mean may be what is meant" if single else "",
    )


def _own(m: Micro, passes: int) -> Share | None:
    """What a pass is the mean over, if that mean is divided by the number of passes."""
    if m.scale is None or m.scale.share is None or m.scale.share.count <= 0:
        return None
    share, divisor = m.scale.share, m.scale.divisor
    by = divisor / share.count if m.scale.reduction == "sum" else divisor
    return share if abs(by - passes) < 1e-6 * passes else None
