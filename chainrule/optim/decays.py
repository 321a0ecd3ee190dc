"""Schedules that fall in steps, by a factor, in waves, or rise first and then fall."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

from chainrule.errors import ConfigError
from chainrule.optim.schedule import Schedule, positive


@final
@dataclass(frozen=True)
class Step(Schedule):
    """Times `gamma` every `steps` steps.

    >>> [optim.Step(2, 0.5)(step) for step in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    steps: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        positive("Step", self.steps)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return self.gamma ** (step // self.steps)


@final
@dataclass(frozen=True)
class MultiStep(Schedule):
    """Times `gamma` at each of the milestones, which are steps.

    >>> [optim.MultiStep((2, 4), gamma=0.5)(step) for step in (0, 2, 4)]
    [1.0, 0.5, 0.25]
    """

    milestones: tuple[int, ...]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "milestones", tuple(self.milestones))
        for milestone in self.milestones:
            positive("MultiStep", milestone)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return self.gamma ** sum([step >= m for m in self.milestones])


@final
@dataclass(frozen=True)
class Exponential(Schedule):
    """gamma^step: the learning rate is multiplied by `gamma` at each step.

    >>> [optim.Exponential(0.5)(step) for step in (0, 1, 2)]
    [1.0, 0.5, 0.25]
    """

    gamma: float

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        return self.gamma**step


@final
@dataclass(frozen=True)
class CosineRestarts(Schedule):
    """Half a cosine wave from 1 towards `end`, again and again; each `longer` times the last one.

    The first is `steps` steps. Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5.

    >>> [round(optim.CosineRestarts(10)(step), 3) for step in (0, 5, 10)]
    [1.0, 0.5, 1.0]
    """

    steps: int
    longer: int = 1
    end: float = 0.0

    def __post_init__(self) -> None:
        positive("CosineRestarts", self.steps)
        positive("CosineRestarts", self.longer)

    def __call__(self, step: int) -> float:
        """The factor at `step`."""
        size = self.steps
        if self.longer == 1:
            step %= size
        while step >= size:
            step -= size
            size *= self.longer
        return self.end + (1 - self.end) * 0.5 * (1 + math.cos(math.pi * step / size))


@final
@dataclass(frozen=True)
class OneCycle(Schedule):
    """From `start` up to 1 in the first `rise` of all steps, and down to `end` in the rest.

    The optimizer's own rate is the highest one. With `three_phase` it falls back to `start` as fast
    as it rose, and then to `end`. `anneal` is "cos" or "linear". As PyTorch's OneCycleLR, where
    start is 1 / div_factor and end start / final_div_factor; for the momentum of its cycle give
    `Scheduler(optimizer, OneCycle(steps, 1, end=1, peak=0.85 / 0.95), "momentum")`. Smith & Topin
    2019, arXiv:1708.07120.

    >>> [round(optim.OneCycle(100)(step), 3) for step in (0, 30, 100)]
    [0.04, 0.999, 0.0]
    """

    steps: int
    start: float = 1 / 25
    end: float = 1 / 25 / 1e4
    rise: float = 0.3
    anneal: Literal["cos", "linear"] = "cos"
    three_phase: bool = False
    peak: float = 1.0

    def __post_init__(self) -> None:
        positive("OneCycle", self.steps)
        if not 0 <= self.rise <= 1 or self.anneal not in ("cos", "linear"):
            raise ConfigError(
                "OneCycle: rise is a number from 0 to 1 and anneal 'cos' or 'linear', not "
                f"{self.rise!r} and {self.anneal!r}"
            )

    def _phases(self) -> list[tuple[float, float, float]]:
        """Where each phase ends, and the factors at its ends."""
        rise = self.rise * self.steps - 1
        if not self.three_phase:
            return [(rise, self.start, self.peak), (self.steps - 1, self.peak, self.end)]
        back = 2 * self.rise * self.steps - 2
        last = (self.steps - 1, self.start, self.end)
        return [(rise, self.start, self.peak), (back, self.peak, self.start), last]

    def __call__(self, step: int) -> float:
        """The factor at `step`; after the last one it stays."""
        step, begin = min(step, self.steps - 1), 0.0
        for stop, a, b in self._phases():
            if step <= stop or stop == self.steps - 1:
                share = (step - begin) / (stop - begin) if stop > begin else 1.0
                if self.anneal == "cos":
                    return b + (a - b) / 2 * (1 + math.cos(math.pi * share))
                return a + (b - a) * share
            begin = stop
        raise AssertionError
