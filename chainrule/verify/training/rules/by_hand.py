"""Steps by hand: loops without an optimizer, which change parameters and forget their gradients.

A parameter that has another value than at the last backward pass has been through a step. If its
gradient is then still the one of that pass, the next one adds to it.
"""

from __future__ import annotations

import ast
import weakref
from dataclasses import dataclass
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import edits
from chainrule.verify.trees import tree_of_file

_TIMES = 2
"""Once it may have been shown on purpose."""


@dataclass(frozen=True)
class _Leaf:
    """A leaf after a backward pass: its gradient, and the norms of both."""

    ref: weakref.ref[Any]
    token: tuple[int, ...]
    gradient: float
    value: float


@final
class ByHand(Part):
    """Finds `not_reset` where no optimizer is used."""

    title = "resets of gradients, without an optimizer"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._optimized: set[int] = set()
        self._leaves: dict[int, _Leaf] = {}
        self._suspects: dict[int, _Leaf] = {}
        self._bare = 0
        self._mixed: list[tuple[int, int, float, Place | None]] = []
        self._spared = False
        """Whether gradients of other parameters were reset, when it was so last."""
        self._reset = ""
        """The statement that is missing."""

    def listens(self) -> Handlers:
        """Backward passes; and optimizers, whose parameters are not looked at."""
        return {
            events.Built: self._built,
            events.StepBegins: self._steps,
            events.BackwardBegins: self._begins,
            events.BackwardEnds: self._ends,
        }

    def _built(self, e: events.Built) -> None:
        self._optimized.update([id(p) for p in e.params])

    def _steps(self, e: events.StepBegins) -> None:
        self._optimized.update([id(p) for p in e.params])

    def _begins(self, e: events.BackwardBegins) -> None:
        same = [
            (key, leaf, x)
            for x in e.graph.leaves
            if (leaf := self._leaves.get(key := id(x))) is not None
            and leaf.ref() is x
            and x.grad is not None
            and e.engine.token(x.grad) == leaf.token
        ]
        known = [x for x in e.graph.leaves if id(x) in self._leaves]
        bare = [x for x in known if x.grad is None or not any(e.engine.norms([x.grad]))]
        gradients = e.engine.norms([x.grad for _, _, x in same])
        values = e.engine.norms([x.detach() for _, _, x in same])
        self._bare = len(bare)
        self._suspects = {
            key: leaf
            for (key, leaf, _), g, value in zip(same, gradients, values, strict=True)
            if leaf.gradient > 0 and g == leaf.gradient and value != leaf.value
        }

    def _ends(self, e: events.BackwardEnds) -> None:
        engine = e.begin.engine
        old = [self._suspects[key].gradient for key in self._suspects.keys() & e.touched]
        if old:
            norm = sum([n * n for n in old]) ** 0.5
            self._spared = self._bare > 0
            self._mixed.append((e.begin.serial, len(old), norm, e.begin.place))
            mixed = [x for x in e.begin.graph.leaves if id(x) in self._suspects.keys() & e.touched]
            self._reset = self._reset or edits.dropped(mixed)
        free = e.touched - self._optimized
        own = [x for x in e.begin.graph.leaves if id(x) in free] if free else []
        gradients = engine.norms([x.grad for x in own])
        values = engine.norms([x.detach() for x in own])
        for x, g, value in zip(own, gradients, values, strict=True):
            self._leaves[id(x)] = _Leaf(weakref.ref(x), engine.token(x.grad), g, value)

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for the loop."""
        if len(self._mixed) < _TIMES:
            return []
        serial, count, norm, place = self._mixed[-1]
        at = reset_in(place) if self._spared else None
        because = (
            f"backward pass {serial} adds to the gradients of {count} parameters (norm {norm:.3g}) "
            "with which they were changed before"
        )
        return [
            finding(
                "error",
                "not_reset",
                because,
                "after the change of the parameters: p.grad = None (or p.grad.zero_())"
                + (", for all of them" if at else ""),
                at or place,
                detail=f"in {len(self._mixed)} steps",
                edit=edits.inserted(place, self._reset)
                if not at and len(self._mixed) == serial - 1
                else None,
            )
        ]


def reset_in(at: Place | None) -> Place | None:
    """The only line of a file that resets gradients; None if there are several."""
    if at is None:
        return None
    tree = tree_of_file(at.file)
    found = {n.lineno for n in ast.walk(tree) if isinstance(n, ast.stmt) and _is_reset(n)}
    return Place(at.file, found.pop()) if len(found) == 1 else None


def _is_reset(n: ast.stmt) -> bool:
    """`p.grad.zero_()`, `p.grad.data.zero_()` or `p.grad = None`."""
    text = ast.unparse(n) if isinstance(n, ast.Expr | ast.Assign) else ""
    return text.endswith((".grad.zero_()", ".grad.data.zero_()", ".grad = None"))
