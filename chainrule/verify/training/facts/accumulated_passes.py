"""Backward passes that are added up for one step, and which mistake that is.

Passes are one accumulation only if they come from one line, each with a forward pass of its own. A
loss that is a sum needs no division. Means over different numbers of elements (padding,
`ignore_index`), divided by their number, give each pass the same weight, however few elements it
has. What that changes is measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Trainer
from chainrule.verify.training.facts.values import are_few
from chainrule.verify.training.record.engine import Engine, Scale, Share
from chainrule.verify.training.text import edits
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.user_frames import Frames

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


class Micro(NamedTuple):
    """One backward pass, as one optimizer sees it."""

    site: Frames
    place: Place | None
    scale: Scale | None
    touched: frozenset[int]
    alone: bool
    """Whether its forward pass is its own, and not kept for another one."""
    first: bool
    """Whether the gradients were empty before it."""
    chained: bool
    """Whether its forward pass read a value that the one before had made, cut from its graph: a
    sequence goes on, whose losses are added up rightly."""
    single: bool
    """Whether what the model was given is one example."""

    def share(self, passes: int) -> Share | None:
        """What it is the mean over, if that mean is divided by the number of passes."""
        if self.scale is None or self.scale.share is None or self.scale.share.count <= 0:
            return None
        share, divisor = self.scale.share, self.scale.divisor
        by = divisor / share.count if self.scale.reduction == "sum" else divisor
        return share if abs(by - passes) < 1e-6 * passes else None


@dataclass(eq=False)
class Groups:
    """The passes of one optimizer, by the steps that used them."""

    trainer: Trainer
    group: list[Micro] = field(default_factory=list[Micro])
    """Since its last step."""
    groups: list[tuple[Micro, ...]] = field(default_factory=list[tuple[Micro, ...]])
    weighed: Weighed = field(default_factory=Weighed)
    looks: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """How its gradients looked after the last event that may change them, by id."""
    is_changed: bool = False
    """Whether the program changed gradients by itself."""
    zeroed_at: Place | None = None
    stepped_at: Place | None = None

    def look(self, engine: Engine) -> None:
        """Note how its gradients look."""
        held = [p for p in self.trainer.params if p.grad is not None]
        self.looks = {id(p): engine.token(p.grad) for p in held}

    def drop(self) -> None:
        """The passes so far are for no step."""
        self.group = []

    def step(self) -> None:
        """It has used them."""
        if self.group:
            self.groups.append(tuple(self.group))
            self.weighed.step(len(self.group))
        self.drop()

    @property
    def passes(self) -> list[Micro]:
        """All of them."""
        return [m for group in self.groups for m in group]

    @property
    def place(self) -> Place | None:
        """Where they begin."""
        return self.groups[0][0].place

    @property
    def is_accumulation(self) -> bool:
        """Whether passes come from one line, each with its own forward pass: two losses, or one
        loss for each head, are none."""
        first = self.groups[0][0] if len(self.groups) > 1 and not self.is_changed else None
        several = sum([len(group) > 1 for group in self.groups]) >= 2
        return first is not None and several and all(
            m.alone and m.site == first.site and m.touched == first.touched for m in self.passes
        )  # fmt: skip

    @property
    def is_unread(self) -> bool:
        """Whether it is one, and how its losses were scaled cannot be told."""
        unread = any(m.scale is None for m in self.passes)
        return self.is_accumulation and unread

    def divisors(self, *, used: bool) -> list[tuple[int, float]]:
        """Size and divisor of each group, -1 where the divisor differs within one; of what the step
        has `used`: the passes since the gradients were empty."""
        rows: list[tuple[int, float]] = []
        for group in self.groups:
            starts = [i for i, m in enumerate(group) if m.first]
            some = group[starts[-1] :] if starts and used else group
            found = {round(m.scale.divisor, 6) for m in some if m.scale is not None}
            rows.append((len(some), found.pop() if len(found) == 1 else -1.0))
        return rows


@final
class Accumulated:
    """An accumulation, in numbers: k passes for each step, whose losses are divided by d."""

    def __init__(self, row: Groups) -> None:
        self.row = row
        self.place = row.place
        used = row.divisors(used=True)
        self.sizes = [k for k, _ in used]
        self.k = Counter(self.sizes).most_common(1)[0][0]
        self.divisors = {d for _, d in used}
        self.d = next(iter(self.divisors)) if len(self.divisors) == 1 else -1.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.row, name)

    # --- which of the mistakes it is; at most one

    @cached_property
    def kind(self) -> str:
        """The first one that it is."""
        kinds: dict[str, Callable[[], object]] = {
            "dropped": lambda: all(m.first for m in self.row.passes) and self.usual_drop[0] > 1,
            "mean of means": lambda: self.counts and self.first_size > 1 and len(self.offs) > 1,
            "": lambda: -1.0 in self.divisors,
            " ": lambda: len(self.divisors) > 1 or self.k < 2 or near(self.d, self.k),
            "divisor": lambda: not (self.is_of_sums or self.is_sequence),
        }
        return next((name for name, is_it in kinds.items() if is_it()), "")

    @property
    def first_size(self) -> int:
        """Of its first group."""
        return len(self.row.groups[0])

    @property
    def offs(self) -> list[float]:
        """How far gradients are from those of the mean over all elements."""
        return self.row.weighed.off

    @cached_property
    def counts(self) -> list[float]:
        """How many elements each loss of the first group is a mean over; empty if that is not known
        of all, or if each is one over all elements."""
        shares = [m.share(len(group)) for group in self.row.groups for m in group]
        known = [s for s in shares if s is not None]
        partial = len(known) == len(shares) and any(s.count < s.elements for s in known)
        return [s.count for s in known[: self.first_size]] if partial else []

    @property
    def is_own_mean(self) -> bool:
        """Whether each loss is a sum that is divided by the number of its own examples."""
        scales = [m.scale for m in self.row.passes]
        return all(s is not None and s.reduction == "sum" and self.d in s.counts for s in scales)

    @property
    def is_of_sums(self) -> bool:
        """Whether losses are sums: over their elements, or over the steps of a sequence."""
        scale = self.row.passes[0].scale
        mean = self.is_own_mean or (scale is not None and scale.reduction == "mean")
        terms = {m.scale.terms for m in self.row.passes if m.scale is not None}
        return not mean or (min(terms) > 1 and any(self.d in (1.0, n) for n in terms))

    @property
    def is_sequence(self) -> bool:
        """Whether the passes for a step are pieces of one sequence (truncated backpropagation)."""
        return all(m.chained for group in self.row.groups for m in group[1:])

    # --- what is said of it

    @property
    def by(self) -> float:
        """What losses are divided by, but for their own examples."""
        return 1.0 if self.is_own_mean else self.d

    @property
    def is_surely_wrong(self) -> bool:
        """Whether a divisor that was written has nothing to do with the number of passes."""
        scale, d = self.row.passes[0].scale, self.by
        divided = scale is not None and scale.by_division
        return divided and d >= 2 and near(d, round(d)) and round(d) % self.k != 0

    @cached_property
    def divided(self) -> Edit | None:
        """The right division."""
        return edits.divide_loss(self.place, self.k) if near(self.by, 1) else None

    @property
    def usual_drop(self) -> tuple[int, float]:
        """Size and divisor of most groups that are reset within."""
        return Counter(self.row.divisors(used=False)).most_common(1)[0][0]

    @property
    def is_single(self) -> bool:
        """Whether each pass is of one example."""
        return all(m.single for m in self.row.passes)


def near(a: float, b: float) -> bool:
    """Whether they are one number."""
    return abs(a - b) < 1e-6
