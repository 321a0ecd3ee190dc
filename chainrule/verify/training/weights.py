"""Weights that a program applies by itself: layers that are no modules.

A function with a list of parameters has such layers, and so has a module that multiplies by several
parameters of its own. A module with one of them is a layer itself, as all of PyTorch's are.
"""

from __future__ import annotations

from typing import final

from chainrule.verify.training import events

ADDS = frozenset({"add", "__add__", "__radd__"})
WEIGHTED = ADDS | {"linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "einsum", "conv1d",
                   "conv2d"}  # fmt: skip
"""Ops that make the output of a layer; what is added to it is its bias."""


@final
class Weights:
    """Which weights are layers of their own."""

    def __init__(self) -> None:
        self._met: set[int] = set()
        self._owned: set[int] = set()
        """Parameters of modules that are layers."""

    def entered(self, e: events.Entered) -> None:
        """A module is being called: what it is made of is known before that."""
        if id(e.module) in self._met:
            return
        self._met.add(id(e.module))
        own = [p for _, p in e.engine.own(e.module)]
        several = len([p for p in own if len(p.shape) > 1]) > 1
        if not several or type(e.module).__module__.startswith("torch.nn."):
            self._owned.update(map(id, own))

    def is_layer(self, e: events.Applied) -> bool:
        """Whether what is applied is a layer of its own."""
        return id(e.param) not in self._owned and len(e.param.shape) > 1
