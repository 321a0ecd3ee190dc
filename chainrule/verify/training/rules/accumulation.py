"""Accumulation: several backward passes for one step, as a loop of training does them.

What is said of them stands in `accumulated.py`.
"""

from __future__ import annotations

import math
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.training.facts.followed import Followed
from chainrule.verify.training.facts.holders import age, node_of, tensors
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.accumulated import Micro, Row, UnreadError, judged

_CUTS = ("detach", "detach_", "data")


@final
class Accumulation(Part):
    """Finds `accumulation`, and resets within an accumulation."""

    title = "accumulation of gradients"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[int, Row] = {}
        self._newest = -1  # serial numbers begin with 0
        self._cut = Followed[int](self._attend)
        """Values that were cut from a graph, and the serial number of the node that made them."""
        self._chained = False
        self._single = False

    def listens(self) -> Handlers:
        """Steps and backward passes, and what changes gradients besides."""
        return {
            events.Built: self._built,
            events.OpRan: self._ran,
            events.Entered: self._entered,
            events.BackwardEnds: self._ends,
            events.Clipped: self._clipped,
            events.Unscaled: self._unscaled,
            events.ScalerStepped: self._skipped,
            events.Zeroed: self._zeroed,
            events.StepBegins: self._steps,
            events.StepEnds: self._stepped,
        }

    def _built(self, e: events.Built) -> None:
        self._rows[id(e.optimizer)] = Row(e.optimizer)

    def _row(self, optimizer: Any) -> Row:
        return self._rows.setdefault(id(optimizer), Row(optimizer))

    def _ran(self, e: events.OpRan) -> None:
        if e.name in _CUTS:
            for x, y in zip(e.inputs, e.outputs, strict=False):
                if x is y or node_of(x) is not None:
                    self._cut.put(y, 0 if x is y else age(x))
        elif self._cut and not self._chained and e.linked:
            self._chained = any(self._is_carried(x) for x in e.inputs)

    def _attend(self) -> None:
        """What reads a value that was cut may be ordinary."""
        self._bus.attend(self, len(self._cut) > 0 and not self._chained)

    def _is_carried(self, x: Any) -> bool:
        """Whether a value was cut from the graph of an earlier backward pass."""
        serial = self._cut.of(x)
        return serial is not None and serial <= self._newest

    def _entered(self, e: events.Entered) -> None:
        if e.recording and not e.depth:
            self._single = any(len(x.shape) < 2 or x.shape[0] == 1 for x in tensors(e.inputs))
        if e.recording and self._cut and any(self._is_carried(x) for x in tensors(e.inputs)):
            self._chained = True

    def _ends(self, e: events.BackwardEnds) -> None:
        begin = e.begin
        alone = begin.graph.oldest > self._newest and not begin.retained
        self._newest = max(self._newest, begin.graph.newest)
        trainers = self._bus.history.trainers
        for key, row in self._rows.items():
            mine = [id(p) for p in begin.engine.params(row.optimizer)]
            own = e.touched.intersection(mine)
            if own:
                first = key in trainers and trainers[key].is_empty
                row.group.append(Micro(
                    begin.site, begin.place, begin.scale, own, alone, first, self._chained,
                    self._single,
                ))  # fmt: skip
                share = None if begin.scale is None else begin.scale.share
                params = begin.engine.params(row.optimizer)
                row.weighed.add(begin.engine, params, share, first)
            row.looks = {key: e.tokens[key] for key in mine if key in e.tokens}
        self._chained = False
        self._attend()

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
            row.weighed.step(len(row.group))
            kept = not any(m.first for m in row.group[1:])
            row.often.append(kept and row.clips.issuperset(range(1, len(row.group) + 1)))
        row.group = []
        row.clips.clear()

    # --- findings

    def found(self, ledger: Ledger) -> list[Finding]:
        """At most one for each optimizer."""
        found: list[Finding] = []
        for row in self._rows.values():
            if row.changed or len(row.groups) < 2:
                continue
            try:
                found += judged(row)
            except UnreadError as error:
                ledger.skipped.append(Skipped(self.title, str(error)))
        return found


def _looks(engine: Engine, optimizer: Any) -> dict[int, tuple[int, ...]]:
    params = engine.params(optimizer)
    return {id(p): engine.token(p.grad) for p in params if p.grad is not None}
