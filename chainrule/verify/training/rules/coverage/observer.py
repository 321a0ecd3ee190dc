"""Coverage: parameters that get no gradient, and parameters that no optimizer changes.

Much of this is done on purpose: a frozen backbone, a head that is not used, a critic whose
gradients nobody wants. So it is a warning only where something else shows that it is not: an
optimizer that holds parameters of no model, a layer in a plain list, a graph that was cut, a
parameter that is made anew in each call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final
from weakref import WeakValueDictionary

from chainrule.engine.source_text import definition, source_line
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import Names, like_optimizers
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.coverage import (
    forgotten_models,
    no_gradient,
    unoptimized_parameters,
)
from chainrule.verify.training.rules.coverage.forgotten_models import Unheld
from chainrule.verify.training.rules.finding import of_parameters
from chainrule.verify.training.text import edits
from chainrule.verify.trees import tree_of
from chainrule.verify.user_frames import Line, here, is_library

_TIMES = 2
"""In so many backward passes one must have been new."""


class Made(NamedTuple):
    """A line that makes a parameter anew in each call."""

    place: Place
    shape: tuple[int, ...]


@final
class Remade:
    """Notes parameters that no module has and no optimizer changes."""

    def __init__(self) -> None:
        self._met: list[Any] = []  # held, so that the next one is another object
        self._passes = 0

    def ended(self, e: events.BackwardEnds, names: Names, optimized: set[int]) -> None:
        """Note those that got a gradient now."""
        loose = [
            x for x in e.begin.graph.leaves
            if type(x).__name__ == "Parameter" and not names.has(x)
            and id(x) not in optimized and not any(x is old for old in self._met)
        ]  # fmt: skip
        self._passes += bool(loose)
        if self._passes <= _TIMES:
            self._met += loose

    def made(self, names: Names) -> Iterator[Made]:
        """Lines that make parameters in a call of a model."""
        if self._passes < _TIMES:
            return
        roots = names.roots.values()
        kinds: set[type] = {type(m) for engine, root in roots for _, m in engine.modules(root)}
        shape = min({tuple(p.shape) for p in self._met})
        yield from (Made(place, shape) for kind in kinds for place in _lines(kind))


ROWS = (
    of_parameters(
        "not_optimized",
        lambda f: f.facts.remade.made(f.facts.names),
        "this line makes a new parameter in each call (of shape {shape}); each gets a gradient "
        "once and is gone: none is ever updated",
        "make it once, in __init__, as self.name = nn.Parameter(...), and use self.name here",
        subject="{place.function}",
    ),
)


def _lines(kind: type) -> list[Place]:
    """Lines of the methods of a user's class, but those of `__init__`, that make a Parameter."""
    found: list[Place] = []
    for name, method in vars(kind).items():
        code = getattr(method, "__code__", None)
        if code is None or name == "__init__" or is_library(code.co_filename):
            continue
        found_text = definition(method)
        if found_text is None:
            continue
        text, first = found_text
        nodes = ast.walk(tree_of("".join(text)))
        lines = [n.lineno for n in nodes if isinstance(n, ast.Call) and _makes(n)]
        found += [Place(code.co_filename, first + n - 1, code.co_qualname) for n in lines]
    return [p for p in found if "Parameter(" in source_line(p.file, p.line)]


def _makes(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] == "Parameter"


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
    loaded_at: Place | None = None
    """Where the last of them was given these."""
    written: dict[int, Line] = field(default_factory=dict[int, Line])
    """By id: parameters of which the program has taken `.data`, and where last."""
    unheld: Unheld = field(default_factory=Unheld)
    remade: Remade = field(default_factory=Remade)
    backwards: int = 0
    frozen: set[int] = field(default_factory=set[int])
    """Ids of parameters that were frozen in a step."""
    elsewhere: set[int] = field(default_factory=set[int])
    """Ids of parameters of optimizers that were made before anybody looked, and rest."""

    @property
    def optimized(self) -> set[int]:
        """Ids of parameters that are in an optimizer."""
        return {key for row in self.optimizers.values() for key in row.params} | self.elsewhere


_trained: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""By id: parameters that an optimizer has changed while somebody looked on, in an earlier phase of
the script, too."""


@final
class Coverage(Part):
    """Finds `no_gradient` and `not_optimized`."""

    title = "parameters: gradients and optimizers"
    rows = (
        *unoptimized_parameters.ROWS, *ROWS, *forgotten_models.ROWS,
        *no_gradient.ROWS,
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

    @on(op_events.OpRan)
    def _ran(self, e: op_events.OpRan) -> None:
        if e.name == "data" and e.inputs and e.inputs[0].is_leaf and (at := here()) is not None:
            self.facts.written[id(e.inputs[0])] = at

    @on(events.Zeroed)
    def _zeroed(self, e: events.Zeroed) -> None:
        self.facts.unheld.zeroed(e)

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        self.facts.unheld.begins(e)

    @on(events.Asked)
    def _asked(self, e: events.Asked) -> None:
        """Gradients may be made so, and given to the parameters by hand."""
        self.facts.unheld.differentiated(e)
        ids = {id(x) for x in e.inputs}
        for row in self.facts.optimizers.values():
            row.fresh |= not ids.isdisjoint(row.params)

    @on(events.Loaded)
    def _loaded(self, e: events.Loaded) -> None:
        self.facts.loaded |= {id(m) for _, m in e.engine.modules(e.module)}
        self.facts.loaded_at = e.place or self.facts.loaded_at

    @on(op_events.Entered)
    def _entered(self, e: op_events.Entered) -> None:
        """Note a call of a module: the first tells what the program calls it."""
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
        self.facts.remade.ended(e, self.facts.names, self.facts.optimized)
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
        if row.fresh:
            params = self.facts.names.known()
            self.facts.frozen |= {id(p) for p in params if not p.requires_grad}
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
        seen = self.facts.optimizers
        rows = [row for row in self.history.trainers.values() if row.built_at is None]
        for row in rows[:1]:
            others = [o for o in like_optimizers(row.optimizer) if id(o) not in seen]
            self.facts.elsewhere = {id(p) for o in others for p in row.engine.params(o)}
        if not self.seen():
            self.facts = Seen(self.history.names)
