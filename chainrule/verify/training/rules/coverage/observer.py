"""Coverage: parameters that get no gradient, and parameters that no optimizer changes.

Much of this is done on purpose: a frozen backbone, a head that is not used, a critic whose
gradients nobody wants. So it is a warning only where something else shows that it is not: an
optimizer that holds parameters of no model, a layer in a plain list, a graph that was cut, a
parameter that is made anew in each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final
from weakref import WeakValueDictionary

from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import Names
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.coverage import forgotten, no_gradient, switches, unoptimized
from chainrule.verify.training.rules.coverage.forgotten import Unheld
from chainrule.verify.training.text import edits
from chainrule.verify.where import Line


@dataclass(eq=False)
class Steps:
    """One optimizer, and what its parameters got in its steps."""

    optimizer: Any
    place: Place | None = None
    count: int = 0
    got: dict[int, int] = field(default_factory=dict[int, int])
    """By id of a parameter: the last step in which it had a gradient."""
    fresh: bool = False
    """Whether a backward pass went before each step."""
    params: dict[int, Any] = field(default_factory=dict[int, Any])

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.optimizer).__name__

    @property
    def size(self) -> int:
        """How many parameters it has."""
        return len(self.params)

    def get(self, ids: Iterable[int]) -> None:
        """Parameters have a gradient in the step that it takes now."""
        self.got |= dict.fromkeys(ids, self.count + 1)


@dataclass(eq=False)
class Seen:
    """All that coverage is judged by."""

    names: Names
    before: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """By id: parameters that were trained in an earlier phase, and live."""
    optimizers: dict[int, Steps] = field(default_factory=dict[int, Steps])
    touched: set[int] = field(default_factory=set[int])
    """Ids of parameters that a backward pass gave a gradient."""
    ran: dict[int, tuple[Any, int, Line | None]] = field(
        default_factory=dict[int, tuple[Any, int, Line | None]]
    )
    """Modules that ran while a graph was recorded, when they did first, and where."""
    silent: set[int] = field(default_factory=set[int])
    """Ids of modules that ran without a graph."""
    strangers: dict[int, tuple[Any, Any, Any]] = field(
        default_factory=dict[int, tuple[Any, Any, Any]]
    )
    """Modules that ran within a model that does not have them: module, model, where."""
    reached: set[int] = field(default_factory=set[int])
    """Ids of those whose parameters got a gradient."""
    called: dict[int, edits.Known] = field(default_factory=dict[int, edits.Known])
    """By id of a model: what the program calls it."""
    loaded: set[int] = field(default_factory=set[int])
    """Ids of modules whose values were trained before."""
    unheld: Unheld = field(default_factory=Unheld)
    backwards: int = 0

    @property
    def optimized(self) -> set[int]:
        """Ids of parameters that are in an optimizer."""
        return {key for row in self.optimizers.values() for key in row.params}


_trained: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""By id: parameters that an optimizer has changed while somebody looked on, in an earlier phase of
the script, too."""


@final
class Coverage(Part):
    """Finds `no_gradient` and `not_optimized`."""

    title = "parameters: gradients and optimizers"
    rows = (
        *unoptimized.ROWS, *forgotten.ROWS, *switches.ROWS, *no_gradient.ROWS
    )  # fmt: skip

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.facts = Seen(self.history.names, before=WeakValueDictionary(_trained))
        self._root: Any = None

    def _of(self, optimizer: Any) -> Steps:
        return self.facts.optimizers.setdefault(id(optimizer), Steps(optimizer))

    @on(events.Built)
    def _built(self, e: events.Built) -> None:
        row = self._of(e.optimizer)
        row.place = e.place
        row.params = {id(p): p for p in e.params}

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        self.facts.unheld.begins(e)

    @on(events.Asked)
    def _asked(self, e: events.Asked) -> None:
        """Gradients may be made so, and given to the parameters by hand."""
        ids = {id(x) for x in e.inputs}
        for row in self.facts.optimizers.values():
            row.fresh |= not ids.isdisjoint(row.params)

    @on(events.Loaded)
    def _loaded(self, e: events.Loaded) -> None:
        self.facts.loaded |= {id(m) for _, m in e.engine.modules(e.module)}

    @on(events.Entered)
    def _entered(self, e: events.Entered) -> None:
        seen, module = self.facts, e.module
        if not e.recording:
            seen.silent.add(id(module))
            return
        if e.depth == 0:
            seen.unheld.entered(e, seen.names)
            self._root = module
            if id(module) not in seen.called:
                seen.called[id(module)] = edits.known_name(module)
        elif not seen.names.has_module(module) and id(module) not in seen.strangers:
            seen.names.renew()
            if not seen.names.has_module(module):
                seen.strangers[id(module)] = (module, self._root, e.at)
        seen.ran.setdefault(id(module), (module, len(seen.ran), e.at))

    @on(events.BackwardEnds)
    def _ended(self, e: events.BackwardEnds) -> None:
        self.facts.backwards += 1
        self.facts.touched |= e.touched
        self.facts.unheld.ended(e, self.facts.names, self.facts.optimized)
        for key, (module, _, _) in self.facts.strangers.items():
            if any(p.grad is not None for _, p in e.begin.engine.own(module)):
                self.facts.reached.add(key)
        for row in self.facts.optimizers.values():
            row.fresh = True

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        row = self._of(e.optimizer)
        row.params.update({id(p): p for p in e.params})
        if not e.closure and row.fresh:
            row.get(e.tokens)

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        row = self._of(e.optimizer)
        self.facts.unheld.stepped()
        _trained.update(row.params)
        if row.fresh:
            row.get(e.tokens)
            row.count += 1
        row.fresh = False

    def seen(self) -> Sequence[str]:
        """How many parameters, in how many steps."""
        steps = max([row.count for row in self.facts.optimizers.values()], default=0)
        return [f"{len(self.facts.names.params())} parameters in {steps} steps"] if steps else []

    def settle(self, ledger: Ledger) -> None:
        """Models may have got other parts; without a step nothing can be said of any."""
        self.facts.names.renew()
        if not self.seen():
            self.facts = Seen(self.history.names)
