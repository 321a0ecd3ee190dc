"""Averages of weights: of all of them alike (SWA), or fading (EMA). PyTorch's names and numbers.

Izmailov et al. 2018, arXiv:1803.05407; Polyak & Juditsky 1992, SIAM J. Control Optim. 30.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, final

import numpy as np

from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.nn.base.module import Module
from chainrule.ops.indexing.selection import where
from chainrule.ops.shapes.shaping import astype

Average = Callable[[Any, Any, Any], Any]
"""A function of the average, the parameter now, and how many have been averaged: the new one."""


def get_swa_avg_fn() -> Average:
    """The mean of all weights so far.

    >>> averaged = optim.AveragedModel(nn.Linear(2, 1), avg_fn=optim.get_swa_avg_fn())
    >>> averaged.update_parameters(nn.Linear(2, 1))
    """
    return lambda average, p, count: average + (p - average) / (count + 1)


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """decay times the average so far, and 1 - decay times the weights now.

    >>> averaged = optim.AveragedModel(nn.Linear(2, 1), avg_fn=optim.get_ema_avg_fn(0.99))
    >>> averaged.update_parameters(nn.Linear(2, 1))
    """
    if not 0 <= decay <= 1:
        raise ConfigError(f"get_ema_avg_fn: decay is a number from 0 to 1, not {decay}")
    return lambda average, p, count: decay * average + (1 - decay) * p


@final
class AveragedModel(Module):
    """A copy of a model, called like it, whose parameters are averages of the model's.

    `update_parameters(model)` takes the model's weights into the average, after a step or an epoch;
    also in a compiled step. `avg_fn` is that of SWA unless another is given. Buffers are copied, or
    averaged with `use_buffers`. The copy is `module`, and `n_averaged` counts.

    >>> model = nn.Linear(2, 1)
    >>> averaged = optim.AveragedModel(model)
    >>> averaged.update_parameters(model)
    >>> averaged(cr.ones((5, 2))).shape
    (5, 1)
    """

    def __init__(
        self, model: Module, avg_fn: Average | None = None, use_buffers: bool = False
    ) -> None:
        self.n_averaged = variable(np.zeros((), np.int64))
        self.module = deepcopy(model)
        self._average = avg_fn or get_swa_avg_fn()
        self._use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged copy gives for these arguments."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the weights of `model` into the average. Raises `ConfigError` for another model."""
        now = dict(model.named_tensors())
        mine = dict(self.module.named_tensors())
        if now.keys() != mine.keys():
            raise ConfigError(
                f"update_parameters: this is the average of another model; it has {len(mine)} "
                f"tensors, this one {len(now)}: {', '.join(sorted(now.keys() ^ mine.keys())[:4])}"
            )
        n = self.n_averaged
        for name, average in mine.items():
            p = now[name].detach()
            if average.dtype.kind == "f" and (now[name].requires_grad or self._use_buffers):
                p = self._new(average.detach(), p, n)
            average.data = p
        n.data = n + 1

    def _new(self, average: Tensor, p: Tensor, n: Tensor) -> Tensor:
        """The first weights as they are; then what the function says."""
        count = astype(n, p.dtype)
        return where(n == 0, p, self._average(average, p, count))
