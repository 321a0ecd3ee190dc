"""Gradient provenance: which backward passes the gradients of each optimizer hold, at each step.

All rules about order (what is reset when, whose gradient a step takes) read this one history. A
pass is *held* until the gradients that it made are reset, by the optimizer or by hand; it is *open*
for a step until that step, or a reset of all of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.text import edits


@dataclass(eq=False)
class Pass:
    """A backward pass."""

    serial: int
    place: Place | None
    touched: frozenset[int]
    """Ids of parameters whose gradients it made or changed."""
    used_by: set[int] = field(default_factory=set[int])
    """Ids of the optimizers that have stepped with what it made."""


@dataclass(frozen=True)
class Use:
    """A pass that was open for a step, as it was then."""

    place: Place | None
    by_others: bool
    """Whether another optimizer had stepped with it."""


@dataclass(eq=False)
class Trainer:
    """One optimizer, and where its gradients come from."""

    engine: Engine
    optimizer: Any
    is_new: bool = False
    """Whether it was seen being made: of others the first step may be over."""
    name: str = ""
    """What the program calls it."""
    held: list[Pass] = field(default_factory=list[Pass])
    open: list[Pass] = field(default_factory=list[Pass])
    since_step: list[Pass] = field(default_factory=list[Pass])
    taken: list[tuple[Use, ...]] = field(default_factory=list[tuple[Use, ...]])
    """What was open, step by step."""
    steps: int = 0
    is_empty: bool = True
    """Whether its gradients were 0, or none, as the last backward pass began."""
    begins_empty: bool = False
    """Whether it had no gradient at its first step."""
    serial: int = 0
    """Number of the next node when it had stepped last."""
    resets: int = 0
    reset_at: Place | None = None
    built_at: Place | None = None
    stepped_at: Place | None = None
    backward_at: Place | None = None
    """The last pass that reached it."""
    late: int = 0
    """Passes from a loss that was there before its last step."""
    in_time: int = 0

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.optimizer).__name__

    @property
    def params(self) -> Sequence[Any]:
        """Its parameters, as they are now."""
        return self.engine.params(self.optimizer)

    def gradients(self) -> list[Any]:
        """Those that are there."""
        return [p.grad for p in self.params if p.grad is not None]


@final
class History:
    """Listens before all rules."""

    def __init__(self) -> None:
        self.trainers: dict[int, Trainer] = {}
        """By id of the optimizer."""
        self.reached: list[Trainer] = []
        """Those whose gradients the last backward pass has changed."""
        self.handlers: Mapping[type, Callable[[Any], None]] = {
            events.Built: self._built,
            events.Zeroed: self._zeroed,
            events.BackwardBegins: self._begins,
            events.BackwardEnds: self._ends,
            events.StepBegins: self._steps,
            events.StepEnds: self._stepped,
        }

    def of(self, e: events.Built | events.StepBegins | events.StepEnds) -> Trainer:
        """The row of an optimizer."""
        return self.trainers.setdefault(id(e.optimizer), Trainer(e.engine, e.optimizer))

    def _built(self, e: events.Built) -> None:
        row = self.of(e)
        row.is_new, row.built_at = e.place is not None, e.place

    def _zeroed(self, e: events.Zeroed) -> None:
        ids = {id(p) for p in e.params}
        for row in self.trainers.values():
            if all(id(p) in ids for p in row.params):
                row.held, row.open, row.reset_at = [], [], e.place
                row.resets += 1

    def _begins(self, e: events.BackwardBegins) -> None:
        """What was reset by hand is not told of."""
        for row in self.trainers.values():
            row.is_empty = not any(e.engine.norms(row.gradients()))
            if row.is_empty:
                row.held = []

    def _ends(self, e: events.BackwardEnds) -> None:
        begin, graph = e.begin, e.begin.graph
        made = Pass(begin.serial, begin.place, e.touched)
        plain = bool(graph.serials) and not (graph.truncated or begin.retained)
        rows = self.trainers.values()
        self.reached = [row for row in rows if any(id(p) in e.touched for p in row.params)]
        for row in self.reached:
            for passes in (row.held, row.open, row.since_step):
                passes.append(made)
            is_late = plain and row.steps > 0 and graph.newest < row.serial
            row.late += is_late
            row.in_time += not is_late
            row.backward_at = begin.place

    def _steps(self, e: events.StepBegins) -> None:
        row, key = self.of(e), id(e.optimizer)
        row.taken.append(tuple([Use(one.place, bool(one.used_by - {key})) for one in row.open]))
        row.open = []
        row.steps += 1
        row.stepped_at = e.place
        row.name = row.name or edits.name_of(e.optimizer)
        if row.steps == 1:
            row.begins_empty = not e.closure and not any(e.gradients.values())
        if not e.closure:
            self._use(row)

    def _use(self, row: Trainer) -> None:
        for one in row.held:
            one.used_by.add(id(row.optimizer))

    def _stepped(self, e: events.StepEnds) -> None:
        row = self.of(e)
        self._use(row)  # what a closure has made, too
        row.since_step = []
        row.serial = e.engine.serial()
