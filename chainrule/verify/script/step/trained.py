"""Which leaves a script trains, where it takes derivatives itself: `autograd.grad(loss, params)`.

An input is a leaf, too, and a penalty on the derivative by it is no step. Parameters are those of
the optimizers that have made a step, or without one, leaves by which derivatives were taken before.
"""

from __future__ import annotations

import weakref
from typing import Any, final

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from chainrule.verify.patches import Patches


@final
class Trained:
    """Notes parameters from `start` to `stop`."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._optimized: set[int] = set()
        self._before: dict[int, weakref.ref[Tensor]] = {}
        """Leaves by which derivatives were taken, by id."""

    def start(self) -> None:
        """Note them from now on."""
        self._patches.before(torch.autograd, "grad", self._derived)
        self._hook = register_optimizer_step_pre_hook(self._steps)

    def stop(self) -> None:
        """Note no more."""
        self._patches.undo()
        self._hook.remove()

    def _steps(self, optimizer: Any, *_: Any) -> None:
        self._optimized |= {id(p) for group in optimizer.param_groups for p in group["params"]}

    def _derived(self, outputs: Any, inputs: Any, *_: Any, **__: Any) -> None:
        self._before |= {id(x): weakref.ref(x) for x in _listed(inputs) if x.is_leaf}

    def by_grad(
        self, outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None,
        create_graph: bool = False, *_: Any, **__: Any,
    ) -> set[int]:  # fmt: skip
        """Ids of the parameters for which `autograd.grad` with these arguments is what a backward
        pass from one number is; none if it is another thing."""
        leaves = _listed(inputs)
        number = isinstance(outputs, Tensor) and outputs.numel() == 1
        if not number or create_graph or not all(map(self._is_trained, leaves)):
            return set()
        return {id(x) for x in leaves}

    def _is_trained(self, x: Tensor) -> bool:
        if self._optimized:
            return id(x) in self._optimized
        ref = self._before.get(id(x))
        return ref is not None and ref() is x


def _listed(inputs: Any) -> list[Tensor]:
    return [inputs] if isinstance(inputs, Tensor) else list(inputs)
