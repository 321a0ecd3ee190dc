"""Coverage: parameters that get no gradient, and parameters that no optimizer changes.

Much of this is done on purpose: a frozen backbone, a head that is not used, a critic whose
gradients nobody wants. So it is a warning only where something else shows that it is not: an
optimizer that holds parameters of no model, a layer in a plain list, a graph that was cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final
from weakref import WeakValueDictionary

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import Names
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.coverage import unoptimized
from chainrule.verify.training.rules.coverage.forgotten import Unheld, alone, unheld
from chainrule.verify.training.rules.coverage.no_gradient import no_gradient
from chainrule.verify.training.rules.coverage.remade import Remade
from chainrule.verify.training.rules.coverage.switches import frozen_groups, misset, misspelt
from chainrule.verify.training.rules.finding import checked
from chainrule.verify.training.text import edits
from chainrule.verify.where import Line, here


@dataclass(eq=False)
class Steps:
    """One optimizer, and what its parameters got in its steps."""

    optimizer: Any
    place: Place | None = None
    count: int = 0
    got: set[int] = field(default_factory=set[int])
    """Ids of parameters that had a gradient in any step."""
    fresh: bool = False
    """Whether a backward pass went before each step."""
    params: dict[int, Any] = field(default_factory=dict[int, Any])


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
    written: dict[int, Line] = field(default_factory=dict[int, Line])
    """By id: parameters of which the program has taken `.data`, and where last."""
    unheld: Unheld = field(default_factory=Unheld)
    remade: Remade = field(default_factory=Remade)
    backwards: int = 0
    loose: bool = False
    """Whether losses began at leaves that are in no model and no optimizer."""

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

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._seen = Seen(Names(), before=WeakValueDictionary(_trained))
        self._root: Any = None

    def listens(self) -> Handlers:
        """Optimizers, modules and backward passes."""
        return {
            events.Built: self._built,
            events.OpRan: self._ran,
            events.Entered: self._entered,
            events.Loaded: self._loaded,
            events.Zeroed: self._seen.unheld.zeroed,
            events.BackwardBegins: self._seen.unheld.begins,
            events.Asked: self._asked,
            events.BackwardEnds: self._ended,
            events.StepBegins: self._steps,
            events.StepEnds: self._stepped,
        }

    def _of(self, optimizer: Any) -> Steps:
        return self._seen.optimizers.setdefault(id(optimizer), Steps(optimizer))

    def _built(self, e: events.Built) -> None:
        row = self._of(e.optimizer)
        row.place = e.place
        row.params = {id(p): p for p in e.params}

    def _ran(self, e: events.OpRan) -> None:
        if e.name == "data" and e.inputs and e.inputs[0].is_leaf and (at := here()) is not None:
            self._seen.written[id(e.inputs[0])] = at

    def _asked(self, e: events.Asked) -> None:
        """Gradients may be made so, and given to the parameters by hand."""
        self._seen.unheld.differentiated(e)
        ids = {id(x) for x in e.inputs}
        for row in self._seen.optimizers.values():
            row.fresh |= not ids.isdisjoint(row.params)

    def _loaded(self, e: events.Loaded) -> None:
        self._seen.loaded |= {id(m) for _, m in e.engine.modules(e.module)}

    def _entered(self, e: events.Entered) -> None:
        seen, module = self._seen, e.module
        if not e.recording:
            seen.silent.add(id(module))
            return
        if e.depth == 0:
            seen.names.add(e.engine, module)
            seen.unheld.entered(e, seen.names)
            self._root = module
            if id(module) not in seen.called:
                seen.called[id(module)] = edits.known_as(module)
        elif not seen.names.has_module(module) and id(module) not in seen.strangers:
            seen.names.renew()
            if not seen.names.has_module(module):
                seen.strangers[id(module)] = (module, self._root, e.at)
        seen.ran.setdefault(id(module), (module, len(seen.ran), e.at))

    def _ended(self, e: events.BackwardEnds) -> None:
        self._seen.backwards += 1
        self._seen.touched |= e.touched
        known, optimized = self._seen.names, self._seen.optimized
        for x in e.begin.graph.leaves:
            self._seen.loose |= not known.has(x) and id(x) not in optimized
        self._seen.unheld.ended(e, self._seen.names, self._seen.optimized)
        self._seen.remade.ended(e, self._seen.names, self._seen.optimized)
        for key, (module, _, _) in self._seen.strangers.items():
            if any(p.grad is not None for _, p in e.begin.engine.own(module)):
                self._seen.reached.add(key)
        for row in self._seen.optimizers.values():
            row.fresh = True

    def _steps(self, e: events.StepBegins) -> None:
        row = self._of(e.optimizer)
        row.params.update({id(p): p for p in e.params})
        if not e.closure and row.fresh:
            row.got |= e.tokens.keys()

    def _stepped(self, e: events.StepEnds) -> None:
        row = self._of(e.optimizer)
        self._seen.unheld.stepped()
        _trained.update(row.params)
        if row.fresh:
            row.got |= e.tokens.keys()
            row.count += 1
        row.fresh = False

    def found(self, ledger: Ledger) -> list[Finding]:
        """What has no gradient, and what no optimizer changes."""
        seen = self._seen
        if not any(row.count for row in seen.optimizers.values()):
            return []
        seen.names.renew()
        steps = max([row.count for row in seen.optimizers.values()])
        how = f"{len(seen.names.params())} parameters in {steps} steps"
        checked(ledger, self.title, how)
        found = unoptimized.not_optimized(seen)
        found += [*seen.remade.found(seen.names), *unheld(seen, seen.optimized)]
        found += alone(seen, seen.optimized)
        found += [*misset(seen), *misspelt(seen), *frozen_groups(seen)]
        return [*found, *no_gradient(seen)]
