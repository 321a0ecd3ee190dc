"""Schedules: what the learning rate is multiplied by, as a function of the step. They are values.

`a * b` multiplies two; `a.then(b, after=n)` runs a for n steps and then b from its beginning. A
`Scheduler` (in `scheduler.py`) applies one to an optimizer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from chainrule.errors import ConfigError


class Schedule(ABC):
    """A factor for each step, counted from 0.

    >>> class Half(optim.Schedule):
    ...     def __call__(self, step: int) -> float:
    ...         return 0.5**step
    >>> (Half() * optim.Constant(2.0))(3)
    0.25
    """

    @abstractmethod
    def __call__(self, step: int) -> float:
        """The factor at `step`."""

    def __mul__(self, other: Schedule) -> Schedule:
        return Product(self, other)

    def then(self, other: Schedule, *, after: int) -> Schedule:
        """This schedule for `after` steps, then the other from its beginning."""
        return Sequence(self, other, after)


def positive(what: str, steps: int) -> None:
    """Raise `ConfigError` unless `steps` is a positive integer."""
    if type(steps) is not int or steps < 1:
        raise ConfigError(f"{what}: steps is a positive integer, not {steps!r}")


@final
@dataclass(frozen=True)
class Constant(Schedule):
    """The factor `factor` at every step.

    >>> optim.Constant(0.5)(10)
    0.5
    """

    factor: float = 1.0

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return self.factor


@final
@dataclass(frozen=True)
class Linear(Schedule):
    """From `start` at step 0 along a line to `end` at step `steps`, and there it stays.

    >>> [optim.Linear(4)(step) for step in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """

    steps: int
    start: float = 1.0
    end: float = 0.0

    def __post_init__(self) -> None:
        positive("Linear", self.steps)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        t = min(step / self.steps, 1.0)
        return self.start * (1 - t) + self.end * t


@final
@dataclass(frozen=True)
class Cosine(Schedule):
    """From 1 at step 0 along half a cosine wave to `end` at step `steps`, and there it stays.

    Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5, without restarts.

    >>> [round(optim.Cosine(100)(step), 3) for step in (0, 50, 100)]
    [1.0, 0.5, 0.0]
    """

    steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        positive("Cosine", self.steps)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        t = min(step / self.steps, 1.0)
        return self.end + (1 - self.end) * 0.5 * (1 + math.cos(math.pi * t))


@final
@dataclass(frozen=True)
class WarmUp(Schedule):
    """Rises by 1 / steps with each step, from 1 / steps at step 0 to 1, and there it stays.

    >>> [optim.WarmUp(4)(step) for step in (0, 1, 3, 9)]
    [0.25, 0.5, 1.0, 1.0]
    """

    steps: int

    def __post_init__(self) -> None:
        positive("WarmUp", self.steps)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return min((step + 1) / self.steps, 1.0)


@final
@dataclass(frozen=True)
class Product(Schedule):
    """The product of two schedules: a warm-up of a decay, say.

    >>> schedule = optim.WarmUp(10) * optim.Linear(100)
    >>> type(schedule).__name__, schedule(9)
    ('Product', 0.91)
    """

    a: Schedule
    b: Schedule

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return self.a(step) * self.b(step)


@final
@dataclass(frozen=True)
class Sequence(Schedule):
    """One schedule for `after` steps, then another from its beginning.

    >>> schedule = optim.Constant(1.0).then(optim.Linear(10), after=5)
    >>> [schedule(step) for step in (0, 5, 10)]
    [1.0, 1.0, 0.5]
    """

    first: Schedule
    second: Schedule
    after: int

    def __post_init__(self) -> None:
        positive("then", self.after)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return self.first(step) if step < self.after else self.second(step - self.after)
