"""GradScaler: a loss is multiplied so that small gradients survive float16, and divided out again.

The factor is as large as gradients allow: halved when one overflows, doubled after a run of steps
in which none did. PyTorch's words, numbers and order of calls:

    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)  # only to clip or to look at gradients
    scaler.step(optimizer)
    scaler.update()

Micikevicius et al. 2018, arXiv:1710.03740, section 3.2.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final
from weakref import ref

import numpy as np

from chainrule.engine.graph import Node, order, tracer, variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, DtypeError, GradientError, TraceError
from chainrule.optim.clip import scalers
from chainrule.optim.optimizer import Optimizer

_LOG = logging.getLogger("chainrule.amp")


@dataclass
class _OptimizerState:
    """What has been done with one optimizer since the last update."""

    optimizer: Optimizer
    unscaled: bool = False
    stepped: bool = False
    bad: list[int] = field(default_factory=list[int])
    """Which of its parameters, in order, had an infinite gradient or NaN."""


@final
class GradScaler:
    """Multiplies losses by `scale`, divides gradients by it, and skips steps that overflowed.

    The scale is `init_scale` at first, times `backoff_factor` after a skipped step, times
    `growth_factor` after `growth_interval` steps in a row that were not. A skipped step is logged
    as a warning of "chainrule.amp"; `skipped` counts them, `message` tells of the last one. Until
    `unscale_`, `clip_grad_norm` and `clip_grad_value` refuse gradients that are still scaled. With
    `enabled=False` losses and gradients stay as they are, and `step` only asks the optimizer.

    >>> scaler = cr.GradScaler()
    >>> scaler.scale(cr.tensor(2.0, requires_grad=True))
    tensor(131072., dtype=float32, made by mul)
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.enabled = enabled
        self.skipped = 0
        self.message = ""
        self._good = 0
        self._steps = 0
        self._seen: dict[int, _OptimizerState] = {}
        self._pending: list[Node] = []
        self._check()
        scalers.add(self)

    def _check(self) -> None:
        if not 0 < self._scale < math.inf:
            raise ConfigError(f"GradScaler: the scale is a positive number, not {self._scale}")
        if not self.growth_factor > 1 or not 0 < self.backoff_factor < 1:
            raise ConfigError(
                f"GradScaler: growth_factor {self.growth_factor} is above 1, backoff_factor "
                f"{self.backoff_factor} between 0 and 1"
            )
        if self.growth_interval < 1:
            raise ConfigError(f"GradScaler: growth_interval {self.growth_interval} is at least 1")

    def get_scale(self) -> float:
        """The number that losses are multiplied by; 1 if not enabled."""
        return self._scale if self.enabled else 1.0

    def scale(self, loss: Tensor) -> Tensor:
        """`loss` times the scale: call `backward()` on this, or give it to `grad`."""
        if not self.enabled:
            return loss
        if tracer() is not None:
            raise TraceError(
                "a GradScaler adapts its scale in Python, which a compiled function does only "
                "while it is traced: compile the forward pass and the loss, and call scale, "
                "backward, step and update outside; or compute in bfloat16, which needs no scale"
            )
        # a loss in float16 could overflow here
        scaled = (loss.astype(np.float32) if loss.dtype == np.float16 else loss) * self._scale
        if scaled.node is not None and scaled.node.needs:
            node = ref(scaled.node)
            scaled.register_hook(
                lambda _: self._pending.append(found) if (found := node()) else None
            )
        return scaled

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of this optimizer's parameters by the scale, before its step."""
        if not self.enabled:
            return
        seen = self._of(optimizer)
        if seen.stepped:
            raise GradientError("unscale_: this optimizer has taken its step: call update() first")
        if seen.unscaled:
            raise GradientError(
                "unscale_: the gradients of this optimizer are unscaled already since the last "
                "update(); a second time would make them too small"
            )
        seen.bad = [i for i, p in enumerate(_params(optimizer)) if not self._unscale(p)]
        seen.unscaled = True

    def _unscale(self, p: Tensor) -> bool:
        """Divide one gradient; whether it was finite."""
        if p.grad is None:
            return True
        if p.dtype == np.float16:
            raise DtypeError(
                f"unscale_: a parameter {p.dtype} {p.shape} has no room for its gradient without "
                "the scale: keep parameters in float32, and compute under autocast"
            )
        with np.errstate(all="ignore"):
            p.grad = variable(p.grad.value * p.dtype.type(1 / self._scale))
        return bool(np.isfinite(p.grad.value).all())

    def step(self, optimizer: Optimizer) -> bool:
        """Unscale, if that is not done, and let the optimizer take its step, unless a gradient is
        infinite or NaN; whether it took it."""
        self._steps += 1
        if not self.enabled:
            optimizer.step()
            return True
        seen = self._of(optimizer)
        if seen.stepped:
            raise GradientError("step: this optimizer has taken its step: call update() first")
        if not seen.unscaled:
            self.unscale_(optimizer)
        seen.stepped = True
        if seen.bad:
            self._tell(seen)
            return False
        optimizer.step()
        return True

    def _tell(self, seen: _OptimizerState) -> None:
        params = _params(seen.optimizer)
        first = params[seen.bad[0]]
        self.skipped += 1
        self.message = (
            f"step {self._steps} of {type(seen.optimizer).__name__} was skipped: the gradients of "
            f"{len(seen.bad)} of {len(params)} parameters were infinite or NaN at scale "
            f"{self._scale:g}, first that of parameter {seen.bad[0]}, {first.dtype} {first.shape}"
        )
        _LOG.warning(self.message)

    def update(self, new_scale: float | None = None) -> None:
        """Adapt the scale, after the last step of an iteration; or set it to `new_scale`."""
        if not self.enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
            self._check()
        elif not any(s.unscaled for s in self._seen.values()):
            raise GradientError(
                "update: no gradient was looked at since the last one: step(optimizer) comes first"
            )
        elif any(s.bad for s in self._seen.values()):
            self._scale, self._good = self._scale * self.backoff_factor, 0
        else:
            self._good += 1
            if self._good == self.growth_interval:
                self._grow()
        self._seen.clear()
        self._pending.clear()

    def _grow(self) -> None:
        self._good = 0
        if self._scale * self.growth_factor < np.finfo(np.float32).max:
            self._scale *= self.growth_factor

    def still_scaled(self, params: Iterable[Tensor]) -> list[Tensor]:
        """Those of `params` whose gradients came from a scaled loss and are not unscaled yet."""
        if not self._pending:
            return []
        done = {id(p) for s in self._seen.values() if s.unscaled for p in _params(s.optimizer)}
        open_ = [p for p in params if id(p) not in done and p.grad is not None]
        reached: set[Any] = set(order(self._pending)) if open_ else set()
        return [p for p in open_ if p.node in reached]

    def _of(self, optimizer: Optimizer) -> _OptimizerState:
        return self._seen.setdefault(id(optimizer), _OptimizerState(optimizer))

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors and the length of the present run of good steps: PyTorch's names."""
        if not self.enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self._good,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; nothing happens if the scaler is not enabled.

        Raises `ConfigError` for a state with other names.
        """
        if not self.enabled:
            return
        wanted = set(self.state_dict())
        if set(state) != wanted:
            raise ConfigError(
                f"this state has {sorted(state)}; a GradScaler needs {sorted(wanted)} (one that "
                "was not enabled has an empty state)"
            )
        self._scale = float(state["scale"])
        self.growth_factor = float(state["growth_factor"])
        self.backoff_factor = float(state["backoff_factor"])
        self.growth_interval = int(state["growth_interval"])
        self._good = int(state["_growth_tracker"])
        self._check()

    def __repr__(self) -> str:
        return f"GradScaler(scale={self.get_scale():g}, skipped={self.skipped})"


def _params(optimizer: Optimizer) -> Sequence[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
