"""Alike: parameters that begin as one and the same, where they should not, or should stay so.

Units of a layer that have the same weights get the same gradients, and stay the same unit for ever.
A matrix that was copied into another layer, so that both are one, is trained apart from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Trainer
from chainrule.verify.training.facts.values import are_few
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.finding import of_parameters
from chainrule.verify.training.text.origins import copy_line, weights

_ELEMENTS = 1_000_000
"""Elements of all parameters that are looked at."""
_STEPS = 3
"""Steps behind which units must still be the same."""
_SAME = 1e-3
"""Relative difference up to which numbers differ by rounding only, over some steps."""


@dataclass(eq=False)
class _Unit:
    """A matrix of which all rows began the same, and what its gradients were."""

    param: Any
    first: Array
    steps: int = 0
    """In which its gradient was not 0, and had the same rows."""
    apart: bool = False


class _Symmetric(NamedTuple):
    """A layer whose units are one."""

    names: str
    units: int
    steps: int
    place: Place | None


class _Copied(NamedTuple):
    """Two parameters that began the same, in layers of two kinds."""

    names: str
    one: str
    other: str
    place: Place | None


@final
class Alike(Part):
    """Finds `symmetric` units, and weights that were `untied`."""

    title = "parameters that begin the same"
    rows = (
        of_parameters(
            "symmetric",
            lambda f: f.symmetric(),
            "all {units} units have the same weights at first, and in each of {steps} steps the "
            "same gradients: they are one unit for ever",
            "initial weights that differ from unit to unit: nn.init.kaiming_uniform_, or what the "
            "layer does by itself",
            "error",
        ),
        of_parameters(
            "untied",
            lambda f: f.copied(),
            "{one} and {other} are equal before the first step, as one was copied into the other, "
            "and are trained apart: each has a gradient of its own",
            "to tie them, let both layers hold one parameter: {other} = {one}, not its values",
            "error",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._units: dict[int, tuple[Trainer, list[_Unit]]] = {}
        self._pairs: dict[int, tuple[Trainer, list[tuple[Any, Any]]]] = {}

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        key = id(e.optimizer)
        if e.closure or not are_few(e.params, _ELEMENTS):
            return
        if key not in self._units:
            trainer, values = self.history.of(e), [np.array(e.engine.array(p)) for p in e.params]
            units = [_Unit(p, x) for p, x in zip(e.params, values, strict=True) if _is_one_unit(x)]
            self._units[key] = trainer, units
            self._pairs[key] = trainer, list(_equal_pairs(e.params, values, e.gradients))
        for unit in self._units[key][1]:
            _look_at_gradient(e.engine, unit)

    def symmetric(self) -> Iterator[_Symmetric]:
        """Those that were still one behind some steps, and have been moved."""
        name = self.history.names.param
        for trainer, units in self._units.values():
            for unit in units:
                now = np.asarray(trainer.engine.array(unit.param))
                moved, apart = np.abs(now - unit.first).max(), np.abs(now - now[:1]).max()
                if not unit.apart and unit.steps >= _STEPS and apart < _SAME * moved:
                    place = weights() or trainer.built_at
                    yield _Symmetric(name(unit.param), len(now), unit.steps, place)

    def copied(self) -> Iterator[_Copied]:
        """Those in layers of two kinds that are no longer the same: a layer that was copied as a
        whole has its like as a copy."""
        names = self.history.names
        for trainer, pairs in self._pairs.values():
            for one, other in pairs:
                kinds = [type(names.owner(p)).__name__ for p in (one, other)]
                a, b = (np.asarray(trainer.engine.array(p)) for p in (one, other))
                if names.has(one) and names.has(other) and kinds[0] != kinds[1] and (a != b).any():
                    said = names.param(one), names.param(other)
                    both = f"{said[0]}, {said[1]}"
                    yield _Copied(both, *said, copy_line(*said) or trainer.built_at)


def _is_one_unit(x: Array) -> bool:
    several = x.ndim >= 2 and x.size > len(x) > 1
    return several and bool(x.any()) and bool((x == x[:1]).all())


def _look_at_gradient(engine: Engine, unit: _Unit) -> None:
    """Note whether the gradient is the same for all units, as far as numbers tell."""
    if unit.apart or unit.param.grad is None:
        return
    g = np.asarray(engine.array(unit.param.grad), np.float64)
    size = float(np.abs(g).max(initial=0.0))
    if size and np.isfinite(size):
        unit.apart = bool(np.abs(g - g[:1]).max() > _SAME * size)
        unit.steps += 1


def _equal_pairs(
    params: Sequence[Any], values: Sequence[Array], gradients: Mapping[int, float]
) -> Iterator[tuple[Any, Any]]:
    """Parameters of several numbers that are equal, each with a gradient other than 0."""
    seen: dict[bytes, Any] = {}
    for p, x in zip(params, values, strict=True):
        if x.ndim < 2 or not gradients.get(id(p)) or x.std() == 0:
            continue
        key = repr(x.shape).encode() + x.tobytes()
        if key in seen:
            yield seen[key], p
        seen.setdefault(key, p)
