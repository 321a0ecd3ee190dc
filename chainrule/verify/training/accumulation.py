"""Accumulation: several backward passes for one step, and what their losses are divided by.

Passes are taken for one accumulation only if they come from the same line, each with a forward pass
of its own: two losses, or one loss for each head, are none. A loss that is a sum needs no division.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.place import Place
from chainrule.verify.training import edits, events
from chainrule.verify.training.bus import Bus, Handlers, Part
from chainrule.verify.training.early import early, is_early
from chainrule.verify.training.engine import Engine
from chainrule.verify.training.events import Scale
from chainrule.verify.training.holders import age, node_of, tensors
from chainrule.verify.training.leftover import leftover, uneven
from chainrule.verify.training.said import said
from chainrule.verify.where import Frames

_CUTS = ("detach", "detach_", "data")


@dataclass(frozen=True)
class _Micro:
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


@dataclass(eq=False)
class _Optimizer:
    optimizer: Any
    group: list[_Micro] = field(default_factory=list[_Micro])
    groups: list[tuple[_Micro, ...]] = field(default_factory=list[tuple[_Micro, ...]])
    looks: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """How its gradients looked after the last event that may change them, by id."""
    clips: set[int] = field(default_factory=set[int])
    """After how many passes of this group gradients were clipped."""
    often: list[bool] = field(default_factory=list[bool])
    """For each group whether that was after each of its passes, all on what was added up."""
    clipped_at: Place | None = None
    changed: bool = False
    """Whether the program changed gradients by itself."""
    zeroed_at: Place | None = None
    dropped_at: set[Place | None] = field(default_factory=set[Place | None])
    """Where groups were reset before their step."""
    stepped_at: Place | None = None


@final
class Accumulation(Part):
    """Finds `accumulation`, and resets within an accumulation."""

    title = "accumulation of gradients"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[int, _Optimizer] = {}
        self._newest = -1  # serial numbers begin with 0
        self._cut: dict[int, tuple[weakref.ref[Any], int]] = {}
        """Values that were cut from a graph, and the serial number of the node that made them."""
        self._chained = False

    def listens(self) -> Handlers:
        """Steps and backward passes, and what changes gradients besides."""
        return {
            events.Built: self._built,
            events.OpRan: self._ran,
            events.Entered: self._entered,
            events.BackwardBegins: self._begins,
            events.BackwardEnds: self._ends,
            events.Clipped: self._clipped,
            events.Unscaled: self._unscaled,
            events.ScalerStepped: self._skipped,
            events.Zeroed: self._zeroed,
            events.StepBegins: self._steps,
            events.StepEnds: self._stepped,
        }

    def _built(self, e: events.Built) -> None:
        self._rows[id(e.optimizer)] = _Optimizer(e.optimizer)

    def _row(self, optimizer: Any) -> _Optimizer:
        return self._rows.setdefault(id(optimizer), _Optimizer(optimizer))

    def _ran(self, e: events.OpRan) -> None:
        if e.name in _CUTS:
            for x, y in zip(e.inputs, e.outputs, strict=False):
                if x is y or node_of(x) is not None:
                    self._follow(id(y), y, 0 if x is y else age(x))
        elif self._cut and not self._chained and e.linked:
            self._chained = any(self._is_carried(x) for x in e.inputs)

    def _follow(self, key: int, y: Any, serial: int) -> None:
        self._cut[key] = weakref.ref(y, lambda _: self._gone(key)), serial
        self._bus.attend(self, not self._chained)  # what reads it may be ordinary

    def _gone(self, key: int) -> None:
        self._cut.pop(key, None)
        self._bus.attend(self, bool(self._cut) and not self._chained)

    def _is_carried(self, x: Any) -> bool:
        """Whether a value was cut from the graph of an earlier backward pass."""
        row = self._cut.get(id(x))
        return row is not None and row[0]() is x and row[1] <= self._newest

    def _entered(self, e: events.Entered) -> None:
        if e.recording and self._cut and any(self._is_carried(x) for x in tensors(e.inputs)):
            self._chained = True

    def _begins(self, e: events.BackwardBegins) -> None:
        self._empty = {
            key
            for key, row in self._rows.items()
            if not any(e.engine.norms(_grads(e.engine, row.optimizer)))
        }

    def _ends(self, e: events.BackwardEnds) -> None:
        begin = e.begin
        alone = begin.graph.oldest > self._newest and not begin.retained
        self._newest = max(self._newest, begin.graph.newest)
        for key, row in self._rows.items():
            mine = [id(p) for p in begin.engine.params(row.optimizer)]
            own = e.touched.intersection(mine)
            if own:
                first = key in self._empty
                row.group.append(
                    _Micro(
                        begin.site, begin.place, begin.scale, own, alone, first, self._chained
                    )
                )  # fmt: skip
            row.looks = {key: e.tokens[key] for key in mine if key in e.tokens}
        self._chained = False
        self._bus.attend(self, bool(self._cut))

    def _clipped(self, e: events.Clipped) -> None:
        own = {id(p) for p in e.params}
        for row in self._rows.values():
            row.looks = _looks(e.engine, row.optimizer)
            bounded = math.isfinite(e.bound)  # others only want to know the norm
            if bounded and any(id(p) in own for p in e.engine.params(row.optimizer)):
                row.clips.add(len(row.group))
                row.clipped_at = e.place

    def _unscaled(self, e: events.Unscaled) -> None:
        row = self._row(e.optimizer)
        row.looks = _looks(e.engine, row.optimizer)

    def _skipped(self, e: events.ScalerStepped) -> None:
        """A step that a scaler has left out: its gradients were for that one."""
        if e.skipped:
            row = self._row(e.optimizer)
            row.group = []
            row.clips.clear()

    def _zeroed(self, e: events.Zeroed) -> None:
        own = {id(p) for p in e.params}
        for row in self._rows.values():
            if any(id(p) in own for p in e.engine.params(row.optimizer)):
                row.zeroed_at = e.place
                row.dropped_at |= {e.place} if row.group else set()

    def _steps(self, e: events.StepBegins) -> None:
        row = self._row(e.optimizer)
        row.stepped_at = e.place
        row.changed |= e.closure or row.looks != e.tokens

    def _stepped(self, e: events.StepEnds) -> None:
        row = self._row(e.optimizer)
        if row.group:
            row.groups.append(tuple(row.group))
            kept = not any(m.first for m in row.group[1:])
            row.often.append(kept and row.clips.issuperset(range(1, len(row.group) + 1)))
        row.group = []
        row.clips.clear()

    # --- findings

    def found(self, ledger: Ledger) -> list[Finding]:
        """At most one for each optimizer."""
        found: list[Finding] = []
        for row in self._rows.values():
            if row.changed or len(row.groups) < 2 or not _is_accumulation(row.groups):
                continue
            if all(row.often):
                found.append(_clipped_often(row))
                continue
            if any(m.scale is None for group in row.groups for m in group):
                why = "how the loss was scaled cannot be read from its graph"
                ledger.skipped.append(Skipped(self.title, why))
                continue
            finding = _dropped(row) or _wrong(row)
            if finding is not None:
                found.append(finding)
        return found


def _grads(engine: Engine, optimizer: Any) -> list[Any]:
    return [p.grad for p in engine.params(optimizer) if p.grad is not None]


def _looks(engine: Engine, optimizer: Any) -> dict[int, tuple[int, ...]]:
    params = engine.params(optimizer)
    return {id(p): engine.token(p.grad) for p in params if p.grad is not None}


def _is_accumulation(groups: list[tuple[_Micro, ...]]) -> bool:
    every = [m for group in groups for m in group]
    first = every[0]
    several = sum([len(group) > 1 for group in groups]) >= 2
    return several and all(
        m.alone and m.site == first.site and m.touched == first.touched for m in every
    )


def _since_reset(group: tuple[_Micro, ...]) -> tuple[_Micro, ...]:
    """What the step has used: the passes since the gradients were empty."""
    starts = [i for i, m in enumerate(group) if m.first]
    return group[starts[-1] :] if starts else group


def _divisors(groups: list[tuple[_Micro, ...]]) -> list[tuple[int, float]]:
    """Size and divisor of each group; -1 where the divisor differs within one."""
    rows: list[tuple[int, float]] = []
    for group in groups:
        found = {round(m.scale.divisor, 6) for m in group if m.scale is not None}
        rows.append((len(group), found.pop() if len(found) == 1 else -1.0))
    return rows


def _dropped(row: _Optimizer) -> Finding | None:
    """A reset in front of every backward pass, though several are meant for one step."""
    groups = row.groups
    if not all(m.first for group in groups for m in group):
        return None
    k, d = Counter(_divisors(groups)).most_common(1)[0][0]
    certain = abs(d - k) < 1e-6
    because = (
        f"{k} backward passes go before each step, and the gradients are reset in front of each of "
        f"them: {k - 1} of {k} gradients are dropped"
    )
    detail = f"the loss is divided by {d:g}, as if all {k} counted" if certain else ""
    return said(
        "error" if certain else "warning",
        "reset_misplaced",
        because,
        "reset once for every step: behind optimizer.step(), not in front of each backward pass",
        groups[0][0].place,
        detail=detail,
        edit=edits.moved_behind(row.zeroed_at, row.stepped_at),
    )


def _clipped_often(row: _Optimizer) -> Finding:
    """Clipped after each pass, the first ones count less the more there are."""
    k = Counter([len(group) for group in row.groups]).most_common(1)[0][0]
    because = (
        f"{k} backward passes go before each step, and what they have added up so far is clipped "
        "after each of them: each clipping shrinks the passes before it once more"
    )
    correction = "clip once for every step, behind the last backward pass"
    return said("warning", "accumulation", because, correction, row.clipped_at)


def _wrong(row: _Optimizer) -> Finding | None:
    groups = row.groups
    rows = _divisors([_since_reset(group) for group in groups])
    sizes = [k for k, _ in rows]
    usual = Counter(sizes).most_common(1)[0][0]
    divisors = {d for _, d in rows}
    scale = groups[0][0].scale
    if scale is None or -1.0 in divisors:
        return None
    if all(abs(d - k) < 1e-6 for k, d in rows):
        return _left(row, sizes, usual)
    place = groups[0][0].place
    if len(divisors) > 1 or usual < 2:
        return None
    d = divisors.pop()
    if abs(d - usual) < 1e-6:
        if is_early(sizes, usual):
            return early(sizes, usual, row.stepped_at)
        return uneven(sizes, usual, place)
    own = _is_own_mean(groups, d)
    if not (scale.reduction == "mean" or own) or _is_sum(groups, d) or _is_sequence(groups):
        return None
    d = 1.0 if own else d
    certain = scale.by_division and d >= 2 and abs(d - round(d)) < 1e-6 and round(d) % usual != 0
    by = "not divided" if abs(d - 1) < 1e-6 else f"divided by {d:g}"
    because = (
        f"{usual} backward passes are added up for each step, each of a mean over its batch; the "
        f"loss is {by}: the gradient is {usual / d:.4g} times the mean's"
    )
    once = abs(d - 1) < 1e-6
    edit = edits.divided(place, usual) if once else edits.redivided(place, d, usual)
    return said(
        "error" if certain else "warning",
        "accumulation",
        because,
        f"divide the loss by the number of backward passes: (loss / {usual}).backward()",
        place if edit is None else edit.place,
        detail=f"the divisor is {d:g}, the number of backward passes {usual}",
        edit=edit,
    )


def _left(row: _Optimizer, sizes: list[int], usual: int) -> Finding | None:
    """Passes that were dropped between whole groups."""
    if usual < 2 or len(set(sizes)) > 1 or len(row.dropped_at) != 1:
        return None
    starts = [[i for i, m in enumerate(group) if m.first] for group in row.groups]
    dropped = [b - a for some in starts for a, b in pairwise(some)]
    (reset,) = row.dropped_at
    return leftover(dropped, usual, reset, row.groups[0][0].place)


def _is_own_mean(groups: list[tuple[_Micro, ...]], divisor: float) -> bool:
    """Whether each loss is a sum that is divided by the number of its own examples."""
    scales = [m.scale for group in groups for m in group]
    return all(s is not None and s.reduction == "sum" and divisor in s.counts for s in scales)


def _is_sum(groups: list[tuple[_Micro, ...]], divisor: float) -> bool:
    """Whether each loss is a sum over the steps of a sequence, or the mean over them."""
    terms = {m.scale.terms for group in groups for m in group if m.scale is not None}
    return min(terms) > 1 and any(divisor in (1.0, n) for n in terms)


def _is_sequence(groups: list[tuple[_Micro, ...]]) -> bool:
    """Whether the passes for a step are pieces of one sequence (truncated backpropagation)."""
    return all(m.chained for group in groups for m in group[1:])
