"""Experiments on a version of the code: what becomes of the gradients if one expression changes.

Gradients are affine in the weight of nearly every expression of a backward. So two runs tell for
which weight they would be right: -1 is a sign, 1/B a missing mean, 0 a term too much.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.target import GOOD, Target
from chainrule.verify.subject import Array

CLOSE = 1e-4
"""Relative error below which a fit is worth a try."""


@dataclass(frozen=True, eq=False)
class Lab:
    """A scene, and the target at which it was seen."""

    scene: Scene
    target: Target
    x_bars: tuple[Array | None, ...]
    """What the version gives, unchanged."""

    def run(self, changes: Mapping[int, Callable[[Any], Any]]) -> tuple[Array | None, ...] | None:
        """x_bars with values of nodes changed on the way; None if that fails."""
        watched = self.scene.watched
        watched.changes = changes
        try:
            return self.target.run(self.scene.draft.source, watched.function)
        finally:
            watched.changes = {}

    @cached_property
    def errors(self) -> dict[int, float]:
        """Of each wanted input."""
        return self.target.errors(self.x_bars)

    @cached_property
    def wrong(self) -> tuple[int, ...]:
        """Inputs whose gradients are wrong here."""
        return tuple([i for i, e in self.errors.items() if e > GOOD])

    def effect(self, node: ast.AST, change: Callable[[Any], Any]) -> dict[int, Array] | None:
        """What a change of a node adds to each wrong gradient that has the right shape; None if it
        adds nothing or fails."""
        x_bars = self.run({self.scene.draft.index[node]: change})
        if x_bars is None:
            return None
        effects = dict[int, Array]()
        for i in self.wrong:
            before, after = (self.target.expected[i].seen(x[i]) for x in (self.x_bars, x_bars))
            if before is not None and after is not None and np.any(after != before):
                effects[i] = after - before
        return effects or None

    @cached_property
    def residuals(self) -> dict[int, Array]:
        """What is missing from each wrong gradient that has the right shape."""
        found = dict[int, Array]()
        for i in self.wrong:
            expected = self.target.expected[i]
            if (got := expected.seen(self.x_bars[i])) is not None:
                found[i] = expected.right - got
        return found

    @cached_property
    def scales(self) -> dict[ast.expr, dict[int, Array]]:
        """Of each expression that matters to a wrong gradient: what one more of it adds."""
        found = dict[ast.expr, dict[int, Array]]()
        for node in self.scene.expressions:
            if _scalable(self.scene.value(node)):
                effect = self.effect(node, lambda v: v + v)
                if effect is not None:
                    found[node] = effect
        return found

    def fits(self, effects: Sequence[dict[int, Array]]) -> list[tuple[float, ...]]:
        """Weights with which effects sum up to a residual: for each wrong input by itself, equal
        ones once."""
        found = list[tuple[float, ...]]()
        for i, residual in self.residuals.items():
            if not all(i in e for e in effects):
                continue
            columns = np.stack([e[i] for e in effects], axis=1)
            weights = np.linalg.lstsq(columns, residual, rcond=None)[0]
            rest = np.linalg.norm(residual - columns @ weights)
            size = np.linalg.norm(self.target.expected[i].right) + np.linalg.norm(residual)
            if rest <= CLOSE * size and np.all(np.isfinite(weights)):
                fit = tuple([float(w.real) for w in weights])
                if not any(np.allclose(fit, f, rtol=CLOSE) for f in found):
                    found.append(fit)
        return found


def _scalable(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float | complex):
        return True
    kind = str(getattr(value, "dtype", ""))
    return "float" in kind or "complex" in kind
