"""Steps that no optimizer takes: `p.data.add_(p.grad, alpha=-lr)` and the like.

What tells them is their effect: parameters of the last backward pass have other values now.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, final

from chainrule.verify.training.record import events
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.where import Frames

_SHARE = 0.5
"""Of the leaves that got a gradient, so many change in a step: a buffer that is filled anew, and
whose gradient is asked for, is one of few."""


@final
class HandSteps:
    """Sees from the values of parameters that a step was taken since the last backward pass."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._site: Frames | None = None
        self._leaves: list[tuple[weakref.ref[Any], float]] = []
        """Leaves that got a gradient in the last backward pass, and the norms that they had."""

    def remember(self, e: events.BackwardEnds) -> None:
        """Note the values of all parameters to which a backward pass has brought a gradient."""
        leaves = [x for x in e.begin.graph.leaves if id(x) in e.touched]
        self.watch(e.begin.engine, leaves)

    def watch(self, engine: Engine, leaves: Sequence[Any], site: Frames | None = None) -> None:
        """Note the values of leaves, and from where derivatives by them were asked for."""
        self._engine, self._site = engine, site
        norms = engine.norms([x.detach() for x in leaves])
        self._leaves = [(weakref.ref(x), n) for x, n in zip(leaves, norms, strict=True)]

    def replaced(self, leaves: Sequence[Any], site: Frames) -> bool:
        """Whether derivatives are asked for from the same lines, by as many leaves, none of which
        is one of those: a step has put new ones in their places."""
        before = [id(x) for ref, _ in self._leaves if (x := ref()) is not None]
        known = bool(before) and site == self._site and len(leaves) == len(self._leaves)
        return known and not {id(x) for x in leaves} & set(before)

    def taken(self) -> bool:
        """Whether they have been changed since; said once for each backward pass."""
        alive = [(x, norm) for ref, norm in self._leaves if (x := ref()) is not None]
        if self._engine is None or not alive:
            return False
        norms = self._engine.norms([x.detach() for x, _ in alive])
        changed = sum([n != norm for n, (_, norm) in zip(norms, alive, strict=True)])
        if changed < _SHARE * len(alive):
            return False
        self._leaves = []
        return True
