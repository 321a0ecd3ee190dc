"""Accumulation: several backward passes for one step; their divisor, resets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, final

from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.training.facts.accumulated_passes import Accumulated, Groups, Micro, near
from chainrule.verify.training.facts.holders import age, node_of, tensors
from chainrule.verify.training.facts.names import IdentityTable
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import edits

_CUTS = ("detach", "detach_", "data")
_MATTERS = 0.1
"""Relative difference of the gradients from which on a mean of means is more than a note."""


def _of(kind: str) -> Callable[[Accumulation], Iterator[Accumulated]]:
    return lambda part: (c for c in part.cases() if c.kind == kind)


_ROWS = (
    Row(
        "reset_misplaced",
        _of("dropped"),
        lambda c: (
            f"{c.usual_drop[0]} backward passes go before each step, and the gradients are reset "
            f"in front of each of them: {c.usual_drop[0] - 1} of {c.usual_drop[0]} gradients are "
            "dropped"
        ),
        "reset once for every step: behind optimizer.step(), not in front of each backward pass",
        lambda c: "error" if near(*c.usual_drop) else "warning",
        place=lambda c: c.zeroed_at or c.place,
        detail=lambda c: (
            f"the loss is divided by {c.usual_drop[1]:g}, as if all {c.usual_drop[0]} counted"
            if near(*c.usual_drop)
            else ""
        ),
        edit=lambda c: edits.move_behind(c.zeroed_at, c.stepped_at),
    ),
    Row(
        "accumulation",
        _of("mean of means"),
        lambda c: (
            f"each of {c.first_size} backward passes for a step is that of a mean over its own "
            f"elements, of which there are {', '.join([f'{n:g}' for n in c.counts])} in the first "
            f"step, divided by {c.first_size}: few count as much as many. The gradient of the mean "
            f"over all is another one: they differ by {median(c.offs):.0%}"
        ),
        'add up sums (reduction="sum") and divide each by the number of elements in all passes for '
        "the step",
        lambda c: "warning" if median(c.offs) >= _MATTERS and not c.is_single else "note",
        detail=lambda c: (
            "each pass is of one example: their mean may be what is meant" if c.is_single else ""
        ),
    ),
    Row(
        "accumulation",
        _of("divisor"),
        lambda c: (
            f"{c.k} backward passes are added up for each step, each of a mean over its batch; the "
            f"loss is {'not divided' if near(c.by, 1) else f'divided by {c.by:g}'}: the gradient "
            f"is {c.k / c.by:.4g} times the mean's"
        ),
        "divide the loss by the number of backward passes: (loss / {k}).backward()",
        lambda c: "error" if c.is_surely_wrong else "warning",
        place=lambda c: c.place if c.divided is None else c.divided.place,
        detail="the divisor is {by:g}, the number of backward passes {k}",
        edit=lambda c: c.divided,
    ),
)


@final
class Accumulation(Part):
    """Finds `accumulation`, and resets within an accumulation."""

    title = "accumulation of gradients"
    rows = _ROWS

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[int, Groups] = {}
        self._newest = -1  # serial numbers begin with 0
        self._cut = IdentityTable[int](self._attend)
        """Values that were cut from a graph, and the serial number of the node that made them."""
        self._chained = False
        self._single = False

    def settle(self, ledger: Ledger) -> None:
        """Note those whose losses cannot be read."""
        why = "how the loss was scaled cannot be read from its graph"
        rows = [row for row in self._rows.values() if row.is_unread]
        ledger.skipped += [Skipped(self.title, why) for _ in rows]

    def cases(self) -> Iterator[Accumulated]:
        """Accumulations that can be judged."""
        for row in self._rows.values():
            if row.is_accumulation and not row.is_unread:
                yield Accumulated(row)

    def _row(self, e: events.AtOptimizer) -> Groups:
        key = id(e.optimizer)
        if key not in self._rows:
            self._rows[key] = Groups(self.history.of(e))
        return self._rows[key]

    @on(events.Built)
    def _built(self, e: events.Built) -> None:
        self._rows[id(e.optimizer)] = Groups(self.history.of(e))

    @on(op_events.OpRan)
    def _ran(self, e: op_events.OpRan) -> None:
        if e.name in _CUTS:
            for x, y in zip(e.inputs, e.outputs, strict=False):
                if x is y or node_of(x) is not None:
                    self._cut.put(y, 0 if x is y else age(x))
        elif self._cut and not self._chained and e.linked:
            self._chained = any(map(self._is_carried, e.inputs))

    def _attend(self) -> None:
        """What reads a value that was cut may be ordinary."""
        self._bus.attend(self, len(self._cut) > 0 and not self._chained)

    def _is_carried(self, x: Any) -> bool:
        """Whether a value was cut from the graph of an earlier backward pass."""
        serial = self._cut.of(x)
        return serial is not None and serial <= self._newest

    @on(op_events.Entered)
    def _entered(self, e: op_events.Entered) -> None:
        if e.recording and not e.depth:
            self._single = any(len(x.shape) < 2 or x.shape[0] == 1 for x in tensors(e.inputs))
        if e.recording and self._cut and any(map(self._is_carried, tensors(e.inputs))):
            self._chained = True

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        """Note a backward pass with each optimizer whose parameters it reached."""
        begin, engine = e.begin, e.begin.engine
        alone = begin.graph.oldest > self._newest and not begin.retained
        self._newest = max(self._newest, begin.graph.newest)
        share = None if begin.scale is None else begin.scale.share
        for row in self._rows.values():
            own, first = e.touched & row.trainer.ids, row.trainer.is_empty
            if own:
                row.group.append(Micro(
                    begin.site, begin.place, begin.scale, own, alone, first, self._chained,
                    self._single,
                ))  # fmt: skip
                row.weighed.add(engine, row.trainer.params, share, first)
            row.look(engine)
        self._chained = False
        self._attend()

    @on(events.Clipped)
    def _clipped(self, e: events.Clipped) -> None:
        for row in self._rows.values():
            row.look(e.engine)

    @on(events.Unscaled)
    def _unscaled(self, e: events.Unscaled) -> None:
        self._row(e).look(e.engine)

    @on(events.ScalerStepped)
    def _skipped(self, e: events.ScalerStepped) -> None:
        """A step that a scaler has left out: its gradients were for that one."""
        if e.skipped:
            self._row(e).drop()

    @on(events.Zeroed)
    def _zeroed(self, e: events.Zeroed) -> None:
        for row in self._rows.values():
            if not row.trainer.ids.isdisjoint(e.ids):
                row.zeroed_at = e.place

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        row = self._row(e)
        row.stepped_at = e.place
        row.is_changed |= e.closure or row.looks != e.tokens

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        self._row(e).step()
