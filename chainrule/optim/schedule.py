"""Schedules: what the learning rate is multiplied by, as a function of the step. They are values.

`a * b` multiplies two; `a.then(b, after=n)` runs a for n steps and then b from its beginning. A
`Scheduler` applies one to an optimizer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from chainrule.errors import ConfigError, TraceError
from chainrule.graph import tracer
from chainrule.optim.optimizer import Optimizer


class Schedule(ABC):
    """A factor for each step, counted from 0."""

    @abstractmethod
    def __call__(self, step: int) -> float:
        """The factor at `step`."""

    def __mul__(self, other: Schedule) -> Schedule:
        return Product(self, other)

    def then(self, other: Schedule, *, after: int) -> Schedule:
        """This schedule for `after` steps, then the other from its beginning."""
        return Sequence(self, other, after)


def _positive(what: str, steps: int) -> None:
    if type(steps) is not int or steps < 1:
        raise ConfigError(f"{what}: steps is a positive integer, not {steps!r}")


@final
@dataclass(frozen=True)
class Constant(Schedule):
    """The same factor always."""

    factor: float = 1.0

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return self.factor


@final
@dataclass(frozen=True)
class Linear(Schedule):
    """From `start` at step 0 along a line to `end` at step `steps`, and there it stays.

    >>> [Linear(4)(step) for step in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """

    steps: int
    start: float = 1.0
    end: float = 0.0

    def __post_init__(self) -> None:
        _positive("Linear", self.steps)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        t = min(step / self.steps, 1.0)
        return self.start * (1 - t) + self.end * t


@final
@dataclass(frozen=True)
class Cosine(Schedule):
    """From 1 at step 0 along half a cosine wave to `end` at step `steps`, and there it stays.

    Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5, without restarts.
    """

    steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        _positive("Cosine", self.steps)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        t = min(step / self.steps, 1.0)
        return self.end + (1 - self.end) * 0.5 * (1 + math.cos(math.pi * t))


@final
@dataclass(frozen=True)
class WarmUp(Schedule):
    """Rises by 1 / steps with each step, from 1 / steps at step 0 to 1, and there it stays."""

    steps: int

    def __post_init__(self) -> None:
        _positive("WarmUp", self.steps)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return min((step + 1) / self.steps, 1.0)


@final
@dataclass(frozen=True)
class Product(Schedule):
    """The product of two schedules: a warm-up of a decay, say."""

    a: Schedule
    b: Schedule

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return self.a(step) * self.b(step)


@final
@dataclass(frozen=True)
class Sequence(Schedule):
    """One schedule for `after` steps, then another from its beginning."""

    first: Schedule
    second: Schedule
    after: int

    def __post_init__(self) -> None:
        _positive("then", self.after)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return self.first(step) if step < self.after else self.second(step - self.after)


@final
class Scheduler:
    """Sets each group's "lr" to its initial one times the schedule's factor.

    It does so at once, for step 0, and then at every `step()`, which belongs after the optimizer's.
    """

    def __init__(self, optimizer: Optimizer, schedule: Schedule) -> None:
        self.optimizer = optimizer
        self.schedule = schedule
        self.base_lrs: list[float] = [float(g["lr"]) for g in optimizer.param_groups]
        self.step_count = 0
        self._set()

    def step(self) -> None:
        """Go on to the next step."""
        if tracer() is not None:
            raise TraceError(
                "Scheduler.step() in a function that is compiled would go on only while it is "
                "traced: call it outside, after the compiled step, which reads the learning rate "
                "anew at every call"
            )
        self.step_count += 1
        self._set()

    def _set(self) -> None:
        factor = self.schedule(self.step_count)
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = lr * factor

    def state_dict(self) -> dict[str, Any]:
        """The step and the initial learning rates, fit for JSON; not the schedule itself."""
        return {"step_count": self.step_count, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; sets the learning rates."""
        if len(state["base_lrs"]) != len(self.base_lrs):
            raise ConfigError(
                f"this state is of {len(state['base_lrs'])} groups, the optimizer has "
                f"{len(self.base_lrs)}"
            )
        self.step_count = int(state["step_count"])
        self.base_lrs = [float(lr) for lr in state["base_lrs"]]
        self._set()
