"""What sets an optimizer's learning rate: by a schedule, or when a metric has stopped improving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, final

from chainrule.engine.graph import tracer
from chainrule.errors import ConfigError, TraceError
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.schedule import Schedule


def _outside(what: str) -> None:
    if tracer() is not None:
        raise TraceError(
            f"{what}.step() in a function that is compiled would go on only while it is "
            "traced: call it outside, after the compiled step, which reads the learning rate "
            "anew at every call"
        )


@final
class Scheduler:
    """Sets each group's "lr" to its initial one times the schedule's factor.

    It does so at once, for step 0, and then at every `step()`, which belongs after the optimizer's.
    `setting` may be another number of the groups, "momentum" say; of "betas" the first is set.

    >>> w = cr.tensor([1.0], requires_grad=True)
    >>> optimizer = optim.SGD([w], lr=0.1)
    >>> scheduler = optim.Scheduler(optimizer, optim.Linear(10))
    >>> scheduler.step()  # after optimizer.step()
    >>> round(optimizer.param_groups[0]["lr"], 3)
    0.09
    """

    def __init__(self, optimizer: Optimizer, schedule: Schedule, setting: str = "lr") -> None:
        self.optimizer = optimizer
        self.schedule = schedule
        self.setting = setting
        for group in optimizer.param_groups:
            if setting not in group:
                raise ConfigError(
                    f"Scheduler: {type(optimizer).__name__} has no setting '{setting}'; it has "
                    f"{', '.join([name for name in group if name != 'params'])}"
                )
        self.base_lrs: list[float] = [self._get(g) for g in optimizer.param_groups]
        self.step_count = 0
        self._set()

    def step(self) -> None:
        """Go on to the next step: set each group's rate by the schedule."""
        _outside("Scheduler")
        self.step_count += 1
        self._set()

    def _set(self) -> None:
        factor = self.schedule(self.step_count)
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            value = lr * factor
            group[self.setting] = (value, *group["betas"][1:]) if self.setting == "betas" else value

    def _get(self, group: Mapping[str, Any]) -> float:
        value = group[self.setting]
        return float(value[0] if self.setting == "betas" else value)

    def state_dict(self) -> dict[str, Any]:
        """The step and the initial learning rates, fit for JSON; not the schedule itself."""
        return {"step_count": self.step_count, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`, and set the learning rates.

        Raises `ConfigError` if it is of another number of parameter groups.
        """
        if len(state["base_lrs"]) != len(self.base_lrs):
            raise ConfigError(
                f"this state is of {len(state['base_lrs'])} groups, the optimizer has "
                f"{len(self.base_lrs)}"
            )
        self.step_count = int(state["step_count"])
        self.base_lrs = [float(lr) for lr in state["base_lrs"]]
        self._set()


@final
class ReduceLROnPlateau:
    """Multiplies each group's "lr" by `factor` once a metric has not improved for some steps.

    `step(metric)` belongs after an epoch. Improved is what is better than the best by `threshold`:
    a share of it ("rel") or a difference ("abs"). After more than `patience` steps without, and
    then `cooldown` steps in which none are counted. As in PyTorch.

    >>> w = cr.tensor([1.0], requires_grad=True)
    >>> optimizer = optim.SGD([w], lr=0.1)
    >>> scheduler = optim.ReduceLROnPlateau(optimizer, patience=0)
    >>> for loss in (1.0, 1.0):
    ...     scheduler.step(loss)
    >>> round(optimizer.param_groups[0]["lr"], 3)
    0.01
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        eps: float = 1e-8,
    ) -> None:
        if not 0 < factor < 1:
            raise ConfigError(f"ReduceLROnPlateau: factor is between 0 and 1, not {factor}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ConfigError(
                "ReduceLROnPlateau: mode is 'min' or 'max' and threshold_mode 'rel' or 'abs', not "
                f"{mode!r} and {threshold_mode!r}"
            )
        self.optimizer = optimizer
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.factor, self.min_lr, self.eps = factor, min_lr, eps
        self.patience, self.cooldown = patience, cooldown
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0

    def step(self, metric: Any) -> None:
        """Take the metric of one more epoch; lower the rates if that did not improve for long."""
        _outside("ReduceLROnPlateau")
        now = float(metric)
        if self._is_better(now):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group in self.optimizer.param_groups:
                new = max(group["lr"] * self.factor, self.min_lr)
                if group["lr"] - new > self.eps:
                    group["lr"] = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _is_better(self, now: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "abs":
            return sign * now < sign * self.best - self.threshold
        return sign * now < sign * self.best * (1 - sign * self.threshold)

    def state_dict(self) -> dict[str, Any]:
        """The best metric and the counters, fit for JSON but for an infinite best."""
        return {
            "best": self.best,
            "num_bad_epochs": self.num_bad_epochs,
            "cooldown_counter": self.cooldown_counter,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`: the best metric, and the epochs counted since."""
        self.best = float(state["best"])
        self.num_bad_epochs = int(state["num_bad_epochs"])
        self.cooldown_counter = int(state["cooldown_counter"])
