"""Flow: how large the gradient is that arrives at each layer, and where it gets lost on the way.

Measured is the Euclidean norm of the gradient of each layer's output. A layer's gradient has
vanished only if that of every layer before it has, too: where a shortcut leads around a small
branch, the layers before it get theirs. What is found holds in every step that was seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.training.facts.holders import tensors
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.user_frames import placed

STEPS = 4
"""Steps of each optimizer that are measured."""
_FLOW = 3
"""Layers of which one can be told from the others."""
_SMALL = 1e-3
"""A gradient below this share of the largest one has vanished; above its inverse, exploded."""
_FACTOR, _GROWTH = 0.3, 2.0
"""From so much from layer to layer on it vanishes, or explodes: plain relu layers as they are
initialised give 0.41."""
_LOST = 1e-6
"""Where that is all that is left, the factor does not matter."""
_STEADY = 1e-1
"""What must be left of the loss when the two largest single jumps are not counted."""
_ENDLESS = 1e100
"""What a norm counts as that is too large for its dtype."""
_DEAD = 0.9
"""Share of a relu's units that are 0 on the whole batch from which on it is dead."""
_SAMPLES, _EACH, _UNITS = 64, 16, 4
"""Values of each unit that it takes to say so, in all steps and in each; and units."""
_Code = Literal["vanishing", "exploding"]


@dataclass(eq=False)
class _Layer:
    """A module with parameters of its own."""

    module: Any
    order: int
    at: Any
    arriving: list[float] = field(default_factory=list[float])
    """Norms of gradients of its outputs since the last step."""
    norms: list[float] = field(default_factory=list[float])
    """The same of each step."""
    dead: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])
    """Units, values of each, and share of units that are 0, of the relu behind it in each call."""

    @property
    def is_dead(self) -> bool:
        """Whether the relu behind it was dead whenever it was seen."""
        some = [row for row in self.dead if row[2] >= _DEAD]
        several = all(count >= _UNITS and n >= _EACH for count, n, _ in some)
        enough = len(some) >= 2 and sum([n for _, n, _ in some]) >= _SAMPLES
        return enough and several and len(some) == len(self.dead)


class _Model(NamedTuple):
    """What was measured of a model, its layers in the order of the forward pass."""

    name: str
    layers: Sequence[_Layer]
    labels: Sequence[str]
    statuses: Sequence[str]

    def having(self, status: str) -> list[int]:
        """Layers with a status."""
        return [i for i, s in enumerate(self.statuses) if s == status]

    @property
    def table(self) -> tuple[tuple[str, ...], ...]:
        """All layers, with their statuses."""
        rows = zip(self.labels, self.layers, self.statuses, strict=True)
        return (
            ("layer", "kind", "gradient", "status"),
            *[
                (name, type(x.module).__name__, f"{x.norms[-1]:.2e}" if x.norms else "-", status)
                for name, x, status in rows
            ],
        )


def _words(code: _Code) -> Callable[[_Model], str]:
    def words(m: _Model) -> str:
        flowing = [(name, x.norms[-1]) for name, x in zip(m.labels, m.layers, strict=True)
                   if x.norms]  # fmt: skip
        (first, low), (last, high) = flowing[0], flowing[-1]
        if code == "vanishing":
            last, high = max(flowing, key=lambda row: row[1])
        factor = (low / high) ** (1 / max(1, len(flowing) - 1)) if high else 0.0
        return (
            f"from {last} back to {first} the gradient goes from {high:.2e} to {low:.2e}: "
            f"a factor of {factor:.2g} for each layer"
        )

    return words


def _of_model(code: str, status: str, words: Callable[[_Model], str], fix: str, why: str) -> Row:
    return Row(
        code, lambda f: [m for m in f.models() if m.having(status)], words, fix,
        place=lambda m: placed(m.layers[m.having(status)[0]].at), detail=why, subject="{name}",
        kind="model", input=lambda m: join_names([m.labels[i] for i in m.having(status)]),
        table=lambda m: m.table,
    )  # fmt: skip


def _dying(m: _Model) -> str:
    i = m.having("DEAD")[0]
    count, _, share = m.layers[i].dead[-1]
    samples = sum([n for _, n, _ in m.layers[i].dead])
    return (
        f"{share:.0%} of the {count} units of the relu behind {m.labels[i]} are 0 for each of "
        f"{samples} values, in every step that was seen: no gradient goes through them"
    )


@final
class Flow(Part):
    """Finds `vanishing`, `exploding` and `dead`, with a table of all layers."""

    title = "flow of gradients"
    rows = (
        _of_model(
            "vanishing", "VANISHING", _words("vanishing"),
            "initial weights of variance 1/fan-in (2/fan-in before relu: "
            "nn.init.kaiming_normal_), relu or gelu in place of what is flat, residual "
            "connections (x + f(x)), or a norm in each layer",
            "each layer multiplies the gradient by less than 1: its initial weights are too "
            "small, or what is between the layers is flat (sigmoid, tanh)",
        ),
        _of_model(
            "exploding", "EXPLODING", _words("exploding"),
            "smaller initial weights (variance 1/fan-in, 2/fan-in before relu), a norm between "
            "the layers, or clip_grad_norm_",
            "each layer multiplies the gradient by more than 1: its weights are too large",
        ),
        _of_model(
            "dead", "DEAD", _dying,
            "a smaller learning rate or bias, another initialisation, or leaky_relu / gelu", "",
        ),
    )  # fmt: skip

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._layers: dict[int, _Layer] = {}
        self._bare: dict[int, Any] = {}  # modules without parameters of their own
        self._fine: set[int] = set()  # modules of models of which nothing can be found any more
        self._last: _Layer | None = None
        self._steps = 0
        self._within = False  # a backward pass
        self._judged: list[_Model] = []

    @on(op_events.Passed)
    def _passed(self, e: op_events.Passed) -> None:
        layer = None if id(e.module) in self._fine else self._layer(e)
        for y in tensors(e.output)[:1] if layer is not None else ():
            e.engine.listen(y, self._hook(e.engine, layer))
            self._last = layer

    def _layer(self, e: op_events.Passed) -> _Layer | None:
        """That of a module; None if it has no parameters of its own."""
        key = id(e.module)
        if key not in self._layers and key not in self._bare:
            if e.engine.own(e.module):
                self._layers[key] = _Layer(e.module, len(self._layers), e.at)
            else:
                self._bare[key] = e.module
        return self._layers.get(key)

    def _hook(self, engine: Engine, layer: _Layer | None) -> Callable[[Sequence[Any]], None]:
        def arrives(gs: Sequence[Any]) -> None:
            if self._error is not None or layer is None or self._steps >= STEPS:
                return
            try:
                layer.arriving += engine.norms([g for g in gs if g is not None])
            except Exception as error:
                self.failed(error)

        return arrives

    @on(op_events.Activated)
    def _activated(self, e: op_events.Activated) -> None:
        """A relu, behind what the last layer has made."""
        layer, self._last = self._last, None
        if layer is not None and not self._within:
            layer.dead.append(_zero_units(e.engine.array(e.y)))

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        self._within = True

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        self._within = False

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        """Keep the norms of one step, layer by layer; look at no more steps than that takes."""
        if self._steps >= STEPS:
            return
        for layer in self._layers.values():
            if layer.arriving:
                layer.norms.append(sum([n * n for n in layer.arriving]) ** 0.5)
                layer.arriving = []
        self._steps += 1
        for engine, root in self.history.names.roots.values():
            inside = [m for _, m in engine.modules(root)]
            if set(self._model("", inside).statuses) == {"OK"} and not any(
                layer.dead and layer.dead[-1][2] >= _DEAD
                for m in inside if (layer := self._layers.get(id(m)))
            ):  # fmt: skip
                self._fine.update(map(id, inside))
        if self._steps >= STEPS:
            for kind in (op_events.Passed, op_events.Activated):
                self._bus.unhear(self, kind)

    def seen(self) -> Sequence[str]:
        """How many layers, in how many steps."""
        return [f"{len(self._layers)} layers in {self._steps} steps"] if self._steps else []

    def models(self) -> Iterator[_Model]:
        """Those that rows judge."""
        self.history.names.renew()
        for engine, root in self.history.names.roots.values() if self._steps else ():
            yield self._model(type(root).__name__, [m for _, m in engine.modules(root)])

    def _model(self, name: str, modules: Sequence[Any]) -> _Model:
        rows = [self._layers[id(m)] for m in modules if id(m) in self._layers]
        rows = sorted(rows, key=lambda layer: layer.order)
        known = iter(_statuses([x for x in rows if x.norms]))
        statuses = [next(known) if x.norms else "NO GRADIENT" for x in rows]
        statuses = ["DEAD" if x.is_dead else s for x, s in zip(rows, statuses, strict=True)]
        names = [self.history.names.module(x.module) for x in rows]
        return _Model(name, rows, names, statuses)


def _zero_units(y: Array) -> tuple[int, int, float]:
    """Units along axis 1 of images, along the last axis otherwise; values of each, and the share of
    units that are 0 on the whole batch."""
    axis = 1 if y.ndim == 4 else max(y.ndim - 1, 0)
    count = y.shape[axis] if y.ndim else 1
    largest = y.max(tuple([i for i in range(y.ndim) if i != axis])) if y.size else y
    dead = 1 - np.count_nonzero(largest) / largest.size if y.size else 0.0
    return count, y.size // max(count, 1), dead


def _statuses(layers: Sequence[_Layer]) -> list[str]:
    """A status for each layer that holds in every step that was seen with finite gradients."""
    steps = min([len(x.norms) for x in layers], default=0)
    each = [[x.norms[-1 - k] for x in layers] for k in range(steps)]
    each = [norms for norms in each if not math.isnan(sum(norms)) and math.isfinite(norms[-1])]
    if len(layers) < _FLOW or not each:
        return ["OK"] * len(layers)
    found = [_of_step(norms) for norms in each]
    return [s[0] if len(set(s)) == 1 else "OK" for s in zip(*found, strict=True)]


def _of_step(norms: Sequence[float]) -> list[str]:
    """For each layer of one step "OK", or that too little or too much arrives there."""
    norms = [min(n, _ENDLESS) for n in norms]
    largest = max(norms)
    if largest <= 0:
        return ["OK"] * len(norms)
    reach = [max(norms[: i + 1]) / largest for i in range(len(norms))]
    floor = [min(norms[: i + 1]) / max(norms[-1], 1e-300) for i in range(len(norms))]
    small = 0 < reach[0] <= _SMALL and _is_steady(reach, _FACTOR)
    large = (
        norms[-1] > 0 and floor[0] >= 1 / _SMALL and _is_steady([1 / f for f in floor], 1 / _GROWTH)
    )
    return [
        "VANISHING" if small and r <= _SMALL else "EXPLODING" if large and f >= 1 / _SMALL else "OK"
        for r, f in zip(reach, floor, strict=True)
    ]


def _is_steady(reach: Sequence[float], factor: float) -> bool:
    """Whether the gradient is lost from layer to layer, rather than at one or two places."""
    drops = sorted([a / b for a, b in pairwise(reach) if b > 0])
    layers = max(1, len([d for d in drops if d < 1]))
    fast = reach[0] ** (1 / layers) <= factor or reach[0] <= _LOST
    return fast and math.prod(drops[2:]) <= _STEADY
