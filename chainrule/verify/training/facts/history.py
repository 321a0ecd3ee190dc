"""Gradient provenance: which backward passes each gradient holds, and who has used them.

All rules about order (what is reset when, whose gradient a step takes) read this one history, and
all rules ask it what parameters and modules are called. A gradient is *used* when an optimizer, or
the program by hand, has changed its parameter with it; if the next pass finds it as it was then and
adds to it, it is *mixed*. It holds its passes until it is reset, by the optimizer or by hand.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.holders import age, node_of
from chainrule.verify.training.facts.names import Names
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.text import edits


@dataclass(eq=False)
class Pass:
    """A backward pass. It holds nothing of the graph."""

    serial: int
    place: Place | None
    touched: frozenset[int]
    """Ids of parameters whose gradients it made or changed."""
    nodes: frozenset[int] = frozenset()
    """Numbers of the nodes that it began at, if their graph was retained and these made one value
    each."""
    used_by: set[int] = field(default_factory=set[int])
    """Ids of the optimizers that have stepped with what it made."""
    onto: set[int] = field(default_factory=set[int])
    """Ids of those of them that had been used, and not reset since then."""
    left: set[int] = field(default_factory=set[int])
    """Ids of the parameters whose gradients still hold it."""
    reset_at: Place | None = None
    """Where the last of these was reset."""


class Used(NamedTuple):
    """A gradient that a step has used: how it looked then."""

    token: tuple[int, ...]
    norm: float


@dataclass(eq=False)
class Gradient:
    """What the gradient of one leaf holds."""

    leaf: weakref.ref[Any]
    passes: list[Pass] = field(default_factory=list[Pass])
    used: Used | None = None
    """As it was used last, if nothing has changed it since."""
    mixed: float = 0.0
    """Norm of what was used before, if a pass has added to that."""
    token: tuple[int, ...] | None = None
    """How it looked after the last pass that reached it."""
    last: Used | None = None
    """As that has left it, of a leaf that no optimizer has."""
    value: float = math.nan
    """Norm of that leaf then."""

    def reset(self, at: Place | None = None) -> None:
        """It holds nothing any more."""
        key = id(self.leaf())
        for one in self.passes:
            one.left.discard(key)
            one.reset_at = at
        self.passes, self.used, self.mixed = [], None, 0.0


_MOST = 31
"""Passes before the last one that are remembered of a gradient which nobody resets."""
HAND = 0
"""Who has used a gradient with which the program itself changed a parameter."""


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
    _known: dict[int, tuple[Sequence[Any], frozenset[int]]]
    """By id of an optimizer: its parameters and their ids, as long as one event is handed on."""
    is_new: bool = False
    """Whether it was seen being made: of others the first step may be over."""
    name: str = ""
    """What the program calls it."""
    open: list[Pass] = field(default_factory=list[Pass])
    """Passes since its last step, or the last reset of all of its parameters."""
    since_step: list[Pass] = field(default_factory=list[Pass])
    taken: list[tuple[Use, ...]] = field(default_factory=list[tuple[Use, ...]])
    """What was open, step by step."""
    mixed: Sequence[float] = ()
    """Of the gradients that it is about to use: norms of what mixed ones have of before."""
    steps: int = 0
    is_empty: bool = True
    """Whether its gradients were 0, or none, as the last backward pass began."""
    begins_empty: bool = False
    """Whether it had no gradient at its first step."""
    has_closure: bool = False
    serial: int = 0
    """Number of the next node when it had stepped last."""
    resets: int = 0
    reset_at: Place | None = None
    built_at: Place | None = None
    stepped_at: Place | None = None
    backward_at: Place | None = None
    """The last pass that reached it."""
    own_pass_at: Place | None = None
    """The one before its last step."""
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
        return self._now()[0]

    @property
    def ids(self) -> frozenset[int]:
        """Their ids."""
        return self._now()[1]

    def _now(self) -> tuple[Sequence[Any], frozenset[int]]:
        known = self._known.get(id(self))
        if known is None:
            params = self.engine.params(self.optimizer)
            known = self._known[id(self)] = params, frozenset(map(id, params))
        return known


@final
class History:
    """Listens before all rules."""

    def __init__(self) -> None:
        self.trainers: dict[int, Trainer] = {}
        """By id of the optimizer."""
        self.gradients: dict[int, Gradient] = {}
        """By id of the leaf."""
        self.newest: Pass | None = None
        self.known: dict[int, tuple[Sequence[Any], frozenset[int]]] = {}
        """What trainers know as long as one event is handed on."""
        self.names = Names()
        self.handlers: Mapping[type, Callable[[Any], None]] = {
            events.Built: self._built,
            op_events.Entered: self._entered,
            events.Zeroed: self._zeroed,
            events.BackwardBegins: self._begins,
            events.BackwardEnds: self._ends,
            events.StepBegins: self._steps,
            events.ClosureEnds: self._called,
            events.StepEnds: self._stepped,
        }

    def of(self, e: events.AtOptimizer) -> Trainer:
        """The row of an optimizer."""
        key = id(e.optimizer)
        if key not in self.trainers:
            self.trainers[key] = Trainer(e.engine, e.optimizer, self.known)
        return self.trainers[key]

    def held(self, params: Sequence[Any]) -> list[Pass]:
        """Passes that gradients of parameters hold, in order."""
        found = {p.serial: p for x in params for p in self.gradient(x).passes}
        return [found[n] for n in sorted(found)]

    def gradient(self, leaf: Any) -> Gradient:
        """What is known of that of a leaf."""
        row = self.gradients.get(id(leaf))
        if row is None or row.leaf() is not leaf:  # another one may have lived there
            row = self.gradients[id(leaf)] = Gradient(weakref.ref(leaf))
        return row

    def optimized(self) -> dict[int, Any]:
        """Parameters of all optimizers, by id."""
        return {id(p): p for row in self.trainers.values() for p in row.params}

    def _built(self, e: events.Built) -> None:
        row = self.of(e)
        row.is_new, row.built_at = e.place is not None, e.place

    def _entered(self, e: op_events.Entered) -> None:
        if e.recording and not e.depth:
            self.names.add(e.engine, e.module)

    def _zeroed(self, e: events.Zeroed) -> None:
        for p in e.params:
            self.gradient(p).reset(e.place)
        for row in self.trainers.values():
            if row.ids <= e.ids:
                row.open, row.reset_at = [], e.place
                row.resets += 1

    def _begins(self, e: events.BackwardBegins) -> None:
        norms = self.settle(e.engine)
        for row in self.trainers.values():
            row.is_empty = not any(norms.get(id(p), 0.0) for p in row.params)

    def settle(self, engine: Engine) -> dict[int, float]:
        """Find out what the program has done to gradients since the last event, which nobody tells:
        reset them, changed them, or stepped with them. Norms of those that are there, by id."""
        alive = {key: x for key, row in self.gradients.items() if (x := row.leaf()) is not None}
        self.gradients = {key: self.gradients[key] for key in alive}
        every = {**alive, **self.optimized()}
        held = {key: x for key, x in every.items() if x.grad is not None}
        norms = dict(zip(held, engine.norms([x.grad for x in held.values()]), strict=True))
        for key, x in alive.items():
            row, norm = self.gradients[key], norms.get(key, 0.0)
            if norm == 0:
                row.reset()
            elif row.used is not None:
                near = abs(norm - row.used.norm) <= 1e-6 * row.used.norm
                if not near or engine.token(x.grad) != row.used.token:
                    row.used = None  # changed; `.grad.data.zero_()` leaves the token as it was
            elif row.last is not None and Used(engine.token(x.grad), norm) == row.last:
                self._look_for_step(engine, x, row)
        return norms

    def _look_for_step(self, engine: Engine, leaf: Any, row: Gradient) -> None:
        """A leaf with another value than at the last pass has been through a step by hand."""
        if engine.norms([leaf.detach()])[0] != row.value:
            row.used = row.last
            for one in row.passes:
                one.used_by.add(HAND)

    def _ends(self, e: events.BackwardEnds) -> None:
        """Note which gradients the backward pass has changed, and by how much."""
        begin, graph, engine = e.begin, e.begin.graph, e.begin.engine
        starts = [age(x) if _is_whole(x) else 0 for x in begin.roots]
        nodes = frozenset(starts if begin.retained and all(starts) and e.error is None else ())
        self.newest = made = Pass(begin.serial, begin.place, e.touched, nodes)
        optimized = self.optimized()
        leaves = {key: x for x in graph.leaves if (key := id(x)) in e.touched}
        leaves |= {key: x for key, x in optimized.items() if key in e.touched}
        for key, x in leaves.items():
            row = self.gradient(x)
            if row.used is not None:
                row.mixed, row.used = row.used.norm, None
                made.onto.add(key)
            row.token = e.tokens.get(key)
            row.passes = [*row.passes[-_MOST:], made]
            made.left.add(key)
        free = [x for key, x in leaves.items() if key not in optimized]
        sizes = zip(engine.norms([x.grad for x in free]), engine.norms([x.detach() for x in free]),
                    strict=True)  # fmt: skip
        for x, (norm, value) in zip(free, sizes, strict=True):
            row = self.gradient(x)
            row.last, row.value = Used(engine.token(x.grad), norm), value
        plain = bool(graph.serials) and not (graph.truncated or begin.retained)
        for row in self.trainers.values():
            if not row.ids.isdisjoint(e.touched):
                row.open.append(made)
                row.since_step.append(made)
                is_late = plain and row.steps > 0 and graph.newest < row.serial
                row.late += is_late
                row.in_time += not is_late
                row.backward_at = begin.place

    def _steps(self, e: events.StepBegins) -> None:
        row, key = self.of(e), id(e.optimizer)
        row.taken.append(tuple([Use(one.place, bool(one.used_by - {key})) for one in row.open]))
        row.open = []
        row.steps += 1
        row.stepped_at = e.place or row.stepped_at
        row.own_pass_at = row.backward_at
        row.has_closure |= e.closure
        row.name = row.name or edits.name_of(e.optimizer)
        if row.steps == 1:
            row.begins_empty = not e.closure and not any(e.gradients.values())
        if not e.closure:
            self._take(e.engine, row)

    def _take(self, engine: Engine, row: Trainer) -> None:
        if any(self.gradient(p).mixed for p in row.params):
            self.settle(engine)
        row.mixed = [n for p in row.params if (n := self.gradient(p).mixed)]

    def _called(self, e: events.ClosureEnds) -> None:
        self._take(e.engine, self.of(e))
        self._use(events.StepEnds(e.engine, e.optimizer, e.place))

    def _stepped(self, e: events.StepEnds) -> None:
        row = self.of(e)
        self._use(e)
        row.since_step = []
        row.serial = e.engine.serial()

    def _use(self, e: events.StepEnds) -> None:
        """An optimizer has stepped with the gradients that are there."""
        for p in e.params:
            if id(p) in e.gradients:
                row, norm = self.gradient(p), e.gradients[id(p)]
                row.used, row.mixed = Used(e.tokens[id(p)], norm) if norm > 0 else None, 0.0
                for one in row.passes:
                    one.used_by.add(id(e.optimizer))


def _is_whole(root: Any) -> bool:
    """Whether a tensor is all that its node made; of several parts each has a loss of its own."""
    made = getattr(node_of(root), "_input_metadata", None)
    return made is None or len(made) == 1
