"""Checkpoint: a module whose inner values are computed again for the backward pass."""

from __future__ import annotations

from typing import Any, final

from chainrule.nn.base.module import Module
from chainrule.transforms.checkpointing import Policy, checkpoint


@final
class Checkpoint(Module):
    """`chainrule.checkpoint` of a module: the same values and gradients, less memory, more time.

    The module is `inner`, so its parameters are named `inner.weight`, say; `policy` chooses ops
    whose values are kept.

    >>> model = nn.Checkpoint(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)))
    >>> model(cr.ones((5, 2))).shape
    (5, 1)
    """

    def __init__(self, inner: Module, *, policy: Policy | None = None) -> None:
        self.inner = inner
        self._policy = policy

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The inner module's value."""
        return checkpoint(self.inner, policy=self._policy)(*args, **kwargs)
