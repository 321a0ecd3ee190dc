"""Flow: how large the gradient is that arrives at each layer, and where it gets lost on the way.

Measured is the gradient of each layer's output (its Euclidean norm), of its parameters, and how far
a step moves them. A layer's gradient has vanished only if that of every layer before it has, too:
where a shortcut leads around a small branch, the layers before it get theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

from chainrule.verify.ledger import Ledger
from chainrule.verify.training.facts import layers as facts
from chainrule.verify.training.facts.holders import age, ages, tensors
from chainrule.verify.training.facts.layers import Group, Layer, Row, Units, Weights
from chainrule.verify.training.facts.names import IdentityTable
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.flow.model import SMALL, Model, is_short, is_steep
from chainrule.verify.training.rules.flow.rows import ROWS
from chainrule.verify.user_frames import here

STEPS = 3
"""Steps of each optimizer that are measured; one more if batches are too small to tell by these."""
_FLOW = 3
"""Layers of which one can be told from the others."""
_NEAR = 100
"""Nodes behind what a model is given among which another model's output is looked for."""
_FEW = 6
"""Nodes behind what an activation is given among which a layer's output is looked for."""
_ELEMENTS = 50_000_000
"""Elements of parameters that are copied, to see how far a step moves them."""


@final
class Flow(Part):
    """Finds `vanishing`, `exploding` and `dead`, with a table of all layers."""

    title = "flow of gradients"
    rows = ROWS

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._layers: dict[int, Layer] = {}
        self._weights = Weights()
        self._bare: dict[int, Any] = {}  # modules without parameters of their own
        self._outputs = IdentityTable[int]()
        self._nodes: dict[int, int] = {}  # numbers of layers, by those of the nodes of this step
        self._groups: list[Group] = []  # of models that are called one by one
        self._made: set[int] = set()  # ages of what models gave in the first step
        self._chained: set[int] = set()  # models that were given what another one gave
        self._units: list[Units] = []
        self._steps = 0
        self._last = STEPS
        self._before: dict[int, Any] = {}
        self._within = False  # a backward pass
        self._judged: list[Model] = []
        self._settled: set[int] = set()  # modules of models of which nothing can be said any more

    # --- layers

    @on(op_events.Entered)
    def _entered(self, e: op_events.Entered) -> None:
        self._weights.entered(e)
        if not e.depth and not self._steps and self._made:
            behind = {n for x in tensors(e.inputs) for n in ages(x, _NEAR)}
            if behind & self._made:
                self._chained.add(id(e.module))

    @on(op_events.Passed)
    def _passed(self, e: op_events.Passed) -> None:
        if id(e.module) in self._settled:
            return
        if e.depth == 0 and not self._steps:
            self._made |= {age(y) for y in tensors(e.output)} - {0}
        layer = self._layer(e)
        if layer is None:
            return
        for y in tensors(e.output)[:1]:
            if e.engine.listen(y, self._hook(e.engine, layer)):
                self._remember(y, layer.order)

    def _layer(self, e: op_events.Passed) -> Layer | None:
        """The row of a module, None if it has no parameters of its own."""
        key = id(e.module)
        if key not in self._layers and key not in self._bare:
            own = tuple([id(p) for _, p in e.engine.own(e.module)])
            if own:
                self._layers[key] = Layer(e.module, "", len(self._layers), e.at, own)
            else:
                self._bare[key] = e.module
        return self._layers.get(key)

    def _remember(self, y: Any, order: int) -> None:
        self._outputs.put(y, order)
        if serial := age(y):
            self._nodes[serial] = order

    def _hook(self, engine: Engine, layer: Layer) -> Callable[[Sequence[Any]], None]:
        def arrives(gs: Sequence[Any]) -> None:
            if self._error is not None or not self._bus.hears(op_events.Passed):
                return
            try:
                layer.arriving += engine.norms([g for g in gs if g is not None])
            except Exception as error:
                self.failed(error)

        return arrives

    @on(op_events.Applied)
    def _applied(self, e: op_events.Applied) -> None:
        """A weight by itself, or the bias of what made `x`."""
        if self._within:
            return
        if e.name in facts.ADDS:
            order = self._outputs.of(e.x)
            if order is not None:
                self._remember(e.y, order)
        elif self._weights.is_layer(e):
            key = id(e.param)
            if key not in self._layers:
                self._layers[key] = Layer(e.param, e.name, len(self._layers), here(), (key,))
            layer = self._layers[key]
            if e.engine.listen(e.y, self._hook(e.engine, layer)):
                self._remember(e.y, layer.order)

    @on(op_events.Activated)
    def _activated(self, e: op_events.Activated) -> None:
        """An activation, applied to what a layer has made, or to what was made of that."""
        order = None if self._within else self._behind(e.x)
        if order is not None:
            self._units.append(facts.measure_units(e.name, e.engine.array(e.y), order, self._steps))

    def _behind(self, x: Any) -> int | None:
        """The number of the last layer that a value was made by, a few calls ago at most."""
        order = self._outputs.of(x)
        if order is not None:
            return order
        nodes = ages(x, _FEW) if tensors(x) else set[int]()
        made = [(serial, order) for serial, order in self._nodes.items() if serial in nodes]
        return max(made)[1] if made else None

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        self._within = True

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        self._within = False

    # --- steps

    @on(events.StepBegins)
    def _stepping(self, e: events.StepBegins) -> None:
        if self._steps >= self._last or e.closure:
            return
        params = {id(p): p for p in e.params}
        for layer in self._layers.values():
            own = [key for key in layer.params if key in params]
            if own:
                grads = [e.gradients[key] for key in own if key in e.gradients]
                layer.gradients.append(_length(grads) if grads else -1.0)
        if self._is_suspect():
            self._measure(e.engine, params)

    def _is_suspect(self) -> bool:
        """Whether anything of this step could be found, so that the table may be shown."""
        arriving = [_length(layer.arriving) for layer in self._layers.values() if layer.arriving]
        flat = any(u.is_flat() for u in self._units if u.step == self._steps)
        return flat or (bool(arriving) and not min(arriving) > SMALL * max(arriving))

    def _measure(self, engine: Engine, params: Mapping[int, Any]) -> None:
        """How large parameters are, and what they are before the step."""
        small = sum([math.prod(p.shape) for p in params.values()]) <= _ELEMENTS
        some = list(params.values()) if small else []
        self._before = dict(zip(map(id, some), engine.copies(some), strict=True))
        sizes = dict(zip(params, engine.norms(list(params.values())), strict=True))
        for layer in self._layers.values():
            own = [key for key in layer.params if key in params]
            if own:
                layer.sizes.append(_length([sizes[key] for key in own]))

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        """Keep the norms of one step, layer by layer; look at no more steps than that takes."""
        if self._steps >= self._last:
            return
        if self._before:
            self._moved(e.engine, e.params)
        for layer in self._layers.values():
            if layer.arriving:
                layer.norms.append(_length(layer.arriving))
                layer.turns.append(tuple(layer.arriving))
                layer.arriving = []
        for engine, root in self.history.names.roots.values():
            self._settle(engine, root)
        if not self._steps:
            self._groups = self._called_in_turn()
        self._steps += 1
        self._nodes.clear()
        self._last += self._steps == STEPS and is_short(self._units)
        if self._steps >= self._last:
            self._outputs.clear()
            for kind in (
                op_events.Entered,
                op_events.Passed,
                op_events.Applied,
                op_events.Activated,
            ):
                self._bus.unhear(self, kind)

    def _settle(self, engine: Engine, root: Any) -> None:
        """A model all of whose layers were fine in one step gets no finding, whatever comes: what
        is found holds in every step."""
        inside = [m for _, m in engine.modules(root) if id(m) not in self._bare]
        layers = [self._layers.get(id(m)) for m in inside if id(m) in self._layers or engine.own(m)]
        last = [layer.norms[-1] if layer and layer.norms else 0.0 for layer in layers]
        orders = {layer.order for layer in layers if layer is not None}
        flat = any(u.is_flat() for u in self._units if u.order in orders)
        steep = any(layer.turns and is_steep(layer.turns[-1]) for layer in layers if layer)
        if len(last) >= _FLOW and min(last) > SMALL * max(last) and not flat and not steep:
            self._settled.update(map(id, inside))

    def _moved(self, engine: Engine, every: Sequence[Any]) -> None:
        """How far the step has moved them."""
        params = [p for p in every if id(p) in self._before]
        norms = engine.moved(params, [self._before[id(p)] for p in params])
        moved = dict(zip(map(id, params), norms, strict=True))
        for layer in self._layers.values():
            own = [moved[key] for key in layer.params if key in moved]
            if own:
                layer.updates.append(_length(own))
        self._before = {}

    # --- cases

    def seen(self) -> Sequence[str]:
        """How many layers, in how many steps."""
        return [f"{len(self._layers)} layers in {self._steps} steps"] if self._steps else []

    def settle(self, ledger: Ledger) -> None:
        """What is to be judged: models, finer where that shows something, and weights in none."""
        if not self._steps:
            return
        self.history.names.renew()
        weights = [layer for layer in self._layers.values() if layer.op]
        for name, layers, named in self._models():
            own = [w for w in weights if self.history.names.has(w.what)]
            fine = self._model(name, facts.split_by_weight(layers, own), named)
            self._judged.append(fine if fine.is_found else self._model(name, layers, named))
        loose = [w for w in weights if not self.history.names.has(w.what)]
        self._judged.append(self._model("training loop", loose, {}))

    def models(self) -> Sequence[Model]:
        """Those that rows judge."""
        return self._judged

    def _model(self, name: str, layers: Sequence[Layer], named: Mapping[int, str]) -> Model:
        rows = [self._row(layer, named) for layer in layers]
        orders = {layer.order for layer in layers}
        return Model(name, rows, [u for u in self._units if u.order in orders])

    def _models(self) -> Iterator[tuple[str, list[Layer], dict[int, str]]]:
        """Models, their layers in the order in which these ran first, and what modules are called
        by id, where that is not as for a model."""
        every = {key: self._inside(*row) for key, row in self.history.names.roots.items()}
        for group in self._groups:
            some = [layer for key in group.modules for layer in every.pop(key, ())]
            yield group.name, facts.in_order(some), dict(group.labels)
        for key, layers in every.items():
            yield type(self.history.names.roots[key][1]).__name__, layers, {}

    def _called_in_turn(self) -> list[Group]:
        """Small models that the program keeps together and calls one after the other."""
        roots = self.history.names.roots.values()
        small = [r for e, r in roots if len(self._inside(e, r)) < _FLOW]
        groups = facts.group_modules(small) if len(self._chained) >= _FLOW - 1 else []
        return [g for g in groups if len(g.modules.keys() - self._chained) <= 1]

    def _inside(self, engine: Engine, root: Any) -> list[Layer]:
        inside = {id(m) for _, m in engine.modules(root)}
        layers = [layer for key, layer in self._layers.items() if key in inside]
        return facts.in_order(layers)

    def _row(self, layer: Layer, named: Mapping[int, str]) -> Row:
        kind = layer.op or type(layer.what).__name__
        engine = next((engine for engine, _ in self.history.names.roots.values()), None)
        if not layer.op:
            name = named.get(id(layer.what)) or self.history.names.module(layer.what)
        elif self.history.names.has(layer.what):
            name = self.history.names.param(layer.what)
        else:
            name = f"{layer.op} {layer.order + 1}"
        return Row(
            name, kind, layer.order, layer.at, tuple(layer.norms), tuple(layer.gradients),
            tuple(layer.sizes), tuple(layer.updates), tuple(layer.turns),
            facts.bias_of(engine, layer),
        )  # fmt: skip


def _length(norms: list[float]) -> float:
    return sum([n * n for n in norms]) ** 0.5
