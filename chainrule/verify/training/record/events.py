"""What happens in a training loop, as values: taps publish them, parts listen.

A tap knows a framework and no mistakes; a part knows one kind of mistake and no framework beyond
what these values say. Parameters are the framework's own tensors: what all of them have is `grad`
and `shape`; for the rest there is `Engine`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any, NamedTuple

from chainrule.verify.place import Place
from chainrule.verify.training.record.engine import Engine, Scale
from chainrule.verify.user_frames import Frames


@dataclass(frozen=True, eq=False)
class Graph:
    """The graph of a loss: serial numbers of its nodes (leaves have none), and its leaves."""

    serials: tuple[int, ...]
    leaves: tuple[Any, ...] = ()
    truncated: bool = False

    @property
    def oldest(self) -> int:
        """Serial number of the node that was made first, 0 if there are none."""
        return self.serials[0] if self.serials else 0

    @property
    def newest(self) -> int:
        """Serial number of the node that was made last, 0 if there are none."""
        return self.serials[-1] if self.serials else 0


@dataclass(frozen=True, eq=False)
class AtOptimizer(abc.ABC):
    """What was done with an optimizer, at a line of the user's."""

    engine: Engine
    optimizer: Any
    place: Place | None

    @cached_property
    def params(self) -> Sequence[Any]:
        """Its parameters."""
        return self.engine.params(self.optimizer)

    @cached_property
    def ids(self) -> frozenset[int]:
        """Their ids, for all who ask."""
        return frozenset(map(id, self.params))

    @cached_property
    def tokens(self) -> Mapping[int, tuple[int, ...]]:
        """How its gradients look now, by id of the parameter, for all who ask."""
        token = self.engine.token
        return {id(p): token(g) for p in self.params if (g := p.grad) is not None}


@dataclass(frozen=True, eq=False)
class Built(AtOptimizer):
    """An optimizer was made."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """A module is about to be given values that were trained before, at a line of the user's."""

    engine: Engine
    module: Any
    values: Mapping[str, Any]
    """By the names of its parameters and buffers."""
    place: Place | None


class Compiles(NamedTuple):
    """A module or a function is about to be compiled, with all that looks at it."""


@dataclass(frozen=True, eq=False)
class AtParameters(abc.ABC):
    """What was done with gradients of some parameters."""

    engine: Engine
    params: Sequence[Any]

    @cached_property
    def ids(self) -> frozenset[int]:
        """Ids of the parameters, for all who ask."""
        return frozenset(map(id, self.params))


@dataclass(frozen=True, eq=False)
class Zeroed(AtParameters):
    """Gradients are about to be reset."""

    place: Place | None


@dataclass(frozen=True, eq=False)
class _Backward:
    """A graph is about to be run backwards, from its roots."""

    engine: Engine
    serial: int
    """Which one, counted from 1."""
    roots: Sequence[Any]
    site: Frames
    place: Place | None
    retained: bool
    graph: Graph


@dataclass(frozen=True, eq=False)
class Differentiated(_Backward):
    """Derivatives by leaves were asked for, and are given to who asked: `.grad` stays as it is."""

    leaves: Sequence[Any]


@dataclass(frozen=True, eq=False)
class Asked:
    """Derivatives by tensors were asked for, whatever becomes of them."""

    inputs: Sequence[Any]


@dataclass(frozen=True, eq=False)
class Given:
    """They were given: one for each of the tensors, or None."""

    inputs: Sequence[Any]
    gradients: Sequence[Any]
    place: Place | None


@dataclass(frozen=True, eq=False)
class BackwardBegins(_Backward):
    """A backward pass is about to run, not within another one."""

    scale: Scale | None
    """None if it cannot be read."""


@dataclass(frozen=True, eq=False)
class BackwardEnds:
    """It is over; `touched` are ids of parameters whose gradients it made or changed."""

    begin: BackwardBegins
    touched: frozenset[int]
    tokens: Mapping[int, tuple[int, ...]]
    """How the gradients of all known parameters look now, by id."""
    error: BaseException | None = None


def _norms(event: AtOptimizer) -> Mapping[int, float]:
    """Norms of the gradients of an optimizer's parameters, by id of the parameter."""
    held = [p for p in event.params if p.grad is not None]
    norms = event.engine.norms([p.grad for p in held])
    return dict(zip(map(id, held), norms, strict=True))


@dataclass(frozen=True, eq=False)
class StepBegins(AtOptimizer):
    """An optimizer is about to take a step. With a closure, gradients come only now."""

    closure: bool

    @cached_property
    def gradients(self) -> Mapping[int, float]:
        """Norms of its gradients as they are now, by id of the parameter, for all who ask."""
        return _norms(self)


@dataclass(frozen=True, eq=False)
class ClosureEnds(AtOptimizer):
    """A closure that an optimizer called has returned."""

    code: CodeType | None = None
    """Its code, if it is a function."""
    drew: bool = False
    """Whether it drew random numbers."""


@dataclass(frozen=True, eq=False)
class StepEnds(AtOptimizer):
    """An optimizer has taken a step."""

    begin: StepBegins | None = None
    """Its beginning, if the optimizer writes to no gradient without changing its token."""

    @cached_property
    def gradients(self) -> Mapping[int, float]:
        """Norms of its gradients as they are now, by id of the parameter, for all who ask."""
        if self.begin is not None and self.begin.tokens == self.tokens:
            return self.begin.gradients
        return _norms(self)


@dataclass(frozen=True, eq=False)
class Clipped(AtParameters):
    """Gradients were clipped; `bound` is what they may be at most."""

    bound: float
    place: Place | None


@dataclass(frozen=True, eq=False)
class Scaled:
    """A loss was multiplied by a scaler's number, for gradients that would be too small."""

    engine: Engine
    scaler: Any
    scale: float


@dataclass(frozen=True, eq=False)
class ScalerOff:
    """A scaler that is disabled was made."""

    place: Place | None


@dataclass(frozen=True, eq=False)
class Unscaled(AtOptimizer):
    """A scaler has divided the gradients of an optimizer by its number."""


@dataclass(frozen=True, eq=False)
class ScalerStepped(AtOptimizer):
    """A scaler was asked for a step; `skipped` because gradients were not finite."""

    scaler: Any
    skipped: bool
    scale: float


class LoaderBuilt(NamedTuple):
    """What gives batches of a data set was made."""

    loader: Any
    place: Place | None


@dataclass(frozen=True, eq=False)
class ScheduleBuilt:
    """A schedule of learning rates is being made."""

    scheduler: Any
    optimizer: Any


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A schedule of learning rates took a step (not the first one, that building it takes)."""

    scheduler: Any
    optimizer: Any
    place: Place | None
