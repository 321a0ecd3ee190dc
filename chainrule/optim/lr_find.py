"""A learning rate to begin with: the one at which the loss falls fastest, found by trying."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from chainrule.engine.graph import tracer
from chainrule.errors import ConfigError, TraceError
from chainrule.nn.base.module import Module
from chainrule.optim.optimizer import Optimizer

_DIVERGED = 4.0
"""A smoothed loss of more than so many times the least one ends the search."""
_SMOOTH = 0.9


class RateSearch(NamedTuple):
    """The rate that is proposed, and the rates that were tried with their smoothed losses.

    >>> found = optim.RateSearch(0.1, [0.01, 0.1], [1.0, 0.5])
    >>> found.lr
    0.1
    """

    lr: float
    lrs: list[float]
    losses: list[float]


def lr_find(
    optimizer: Optimizer,
    step: Callable[[], Any],
    *,
    low: float = 1e-6,
    high: float = 1.0,
    steps: int = 100,
    model: Module | None = None,
) -> RateSearch:
    """Train for `steps` steps while the rate rises from `low` to `high`, and put everything back.

    `step()` is one step of training, compiled or not, and returns its loss. The rate is the one at
    which the smoothed loss falls fastest over the logarithm of the rate. The search ends where the
    loss exceeds four times its least value, or is not finite. Parameters and the optimizer's state
    are as before afterwards, and the buffers of `model` if it is given. Smith 2017,
    arXiv:1506.01186, section 3.3.

    >>> w = cr.tensor([1.0], requires_grad=True)
    >>> optimizer = optim.SGD([w])
    >>> def step():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 3.0) ** 2).sum()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> found = optim.lr_find(optimizer, step, steps=20)
    >>> len(found.lrs), w
    (20, tensor([1.], dtype=float32, requires_grad=True))
    """
    if tracer() is not None:
        raise TraceError(
            "lr_find in a function that is compiled: compile the step, call it outside"
        )
    if not 0 < low < high or steps < 3:
        raise ConfigError(f"lr_find: 0 < low < high and steps >= 3, not {low}, {high}, {steps}")
    groups = optimizer.param_groups
    tensors = [p for g in groups for p in g["params"]]
    tensors += [] if model is None else [t for _, t in model.named_tensors()]
    before = [(t, t.detach().copy(), t.grad) for t in tensors]
    saved = optimizer.state_dict()
    rates = [low * (high / low) ** (i / (steps - 1)) for i in range(steps)]
    try:
        losses = _losses(groups, step, rates)
    finally:
        for t, value, grad in before:
            t.data, t.grad = value, grad
        optimizer.load_state_dict(saved)
    if len(losses) < 3:
        raise ConfigError(f"lr_find: the loss diverged at once, at {rates[0]:g}: begin lower")
    falls = [(losses[i + 1] - losses[i - 1], rates[i]) for i in range(1, len(losses) - 1)]
    return RateSearch(min(falls)[1], rates[: len(losses)], losses)


def _losses(
    groups: list[dict[str, Any]], step: Callable[[], Any], rates: list[float]
) -> list[float]:
    """The smoothed losses of steps at these rates, until one diverges."""
    ratios = [g["lr"] / (groups[0]["lr"] or 1.0) for g in groups]
    losses: list[float] = []
    mean = 0.0
    for i, rate in enumerate(rates):
        for group, ratio in zip(groups, ratios, strict=True):
            group["lr"] = rate * (ratio or 1.0)
        loss = float(step())
        if not math.isfinite(loss):
            break
        mean = _SMOOTH * mean + (1 - _SMOOTH) * loss
        losses.append(mean / (1 - _SMOOTH ** (i + 1)))
        if losses[-1] > _DIVERGED * min(losses) and min(losses) > 0:
            break
    return losses
