"""What a program does to parameters and gradients by hand, between the events of its loop.

Values are compared at the events. A constraint may be put on weights in front of the step that
moves them off it again. A sum of gradients of copies of a model may be taken for a mean. Weights
may be moved along their gradients, to which a second backward pass then adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Trainer
from chainrule.verify.training.facts.values import are_few, flat
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.engine import Engine, Scale
from chainrule.verify.training.rules.finding import Row, is_seldom

_ELEMENTS = 1_000_000
"""Elements of parameters that are copied."""
_STEPS = 16
"""Steps of an optimizer that are looked at."""
_COPIES = 16
"""Models whose gradients are looked for in those of another one."""
_EXACT = 1e-3
_ALONG = 0.5
"""Cosine of a move and a gradient from which on the one was made of the other."""

Values = Sequence[Array]


class _Pass(NamedTuple):
    """What a backward pass has brought to a model that no optimizer has."""

    place: Place | None
    scale: Scale | None
    values: Values
    gradients: Values


@dataclass(eq=False)
class _Moves:
    """The parameters of one optimizer, as they were at the events of a step."""

    trainer: Trainer
    steps: int = 0
    first: Values = ()
    """As the first backward pass of the step began."""
    last: Values = ()
    """As the last one did."""
    bound: Sequence[tuple[int, Any, Array]] = ()
    """What was set by hand since then: which parameter, which of its elements, and to what."""


class _Case(NamedTuple):
    """A mistake at a line, seen so often."""

    kind: str
    place: Place | None
    times: int
    copies: int = 0


@final
class Moves(Part):
    """Finds `undone`, and gradients of copies that have a wrong denominator."""

    title = "parameters and gradients that are changed by hand"
    rows = (
        Row(
            "undone",
            lambda f: f.cases("undone"),
            "in {times} steps some elements of weights were set behind the backward pass, and the "
            "step behind that moved them off again: the next forward pass does not see them as set",
            "set them behind the step: optimizer.step() first",
            unless=(is_seldom,),
        ),
        Row(
            "accumulation",
            lambda f: f.cases("sum"),
            "in {times} steps the gradients of {copies} copies of the model, each of a mean over "
            "its own batch, were added up: the gradient is {copies} times the mean's",
            "divide the sum by the number of copies",
            unless=(is_seldom,),
        ),
        Row(
            "not_reset",
            lambda f: f.cases("two points"),
            "in {times} steps this pass adds to the gradients of the one before, along which the "
            "weights were moved by hand in between: the step takes the sum of gradients at two "
            "points",
            "reset the gradients once the weights are moved, before this pass",
            "error",
            (is_seldom,),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[int, _Moves] = {}
        self._passes: dict[int, _Pass] = {}
        """By id of a model: its last pass since a step."""
        self._found: dict[tuple[str, Place | None], tuple[int, int]] = {}

    def cases(self, kind: str) -> list[_Case]:
        """Those of a kind."""
        return [_Case(k, at, *row) for (k, at), row in self._found.items() if k == kind]

    def _note(self, kind: str, place: Place | None, count: int = 0) -> None:
        times, _ = self._found.get((kind, place), (0, 0))
        self._found[kind, place] = times + 1, count

    def _row(self, e: events.AtOptimizer) -> _Moves | None:
        """That of an optimizer, if its parameters are looked at."""
        row = self._rows.setdefault(id(e.optimizer), _Moves(self.history.of(e)))
        return row if row.steps < _STEPS and are_few(e.params, _ELEMENTS) else None

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        reached = {id(x) for x in e.graph.leaves}
        for row in self._rows.values():
            if reached.isdisjoint(row.trainer.ids) or row.steps >= _STEPS:
                continue
            now = _values(e.engine, row.trainer.params)
            if row.last and self._is_moved_along_gradients(e.engine, row, now):
                self._note("two points", e.place)
            if row.bound and any(_differ(now[i][some], old) for i, some, old in row.bound):
                self._note("undone", row.trainer.stepped_at)
            row.first, row.last, row.bound = row.first or now, now, ()

    def _is_moved_along_gradients(self, engine: Engine, row: _Moves, now: Values) -> bool:
        """Whether the gradients of the pass before are still there, no optimizer has used them, and
        the weights have moved along them."""
        params, before = row.trainer.params, row.trainer.open[-1:]
        grads = [p.grad for p in params]
        if not _are_other(row.last, now) or not before or before[0].used_by:
            return False
        kept = [(x, y, engine.array(g)) for x, y, g in zip(row.last, now, grads, strict=True)
                if g is not None]  # fmt: skip
        if not kept:
            return False
        move, gradient = flat([y - x for x, y, _ in kept]), flat([g for *_, g in kept])
        sizes = np.linalg.norm(move) * np.linalg.norm(gradient)
        return bool(abs(move @ gradient) > _ALONG * sizes > 0)

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        names, optimized = self.history.names, self.history.optimized()
        for key in list(names.roots)[:_COPIES] if e.touched - optimized.keys() else ():
            params = names.within(names.roots[key][1])
            own = {id(p) for p in params}
            if own & e.touched and own.isdisjoint(optimized) and are_few(params, _ELEMENTS):
                engine, grads = e.begin.engine, [p.grad for p in params]
                if all(g is not None for g in grads):
                    self._passes[key] = _Pass(
                        e.begin.place, e.begin.scale, _values(engine, params),
                        _values(engine, grads),
                    )  # fmt: skip

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        row = self._row(e)
        if row is None or e.closure:
            return
        now = _values(e.engine, e.params)
        if row.last:
            is_home = not _are_other(row.first, row.last)
            row.bound = _set_elements(row.last, now) if is_home else ()
        elif self._passes:
            self._compare(e, now)

    def _compare(self, e: events.StepBegins, now: Values) -> None:
        """Whether the gradients are those of copies, and what was made of them."""
        shapes = [p.shape for p in now]
        passes = [
            one for one in self._passes.values()
            if [g.shape for g in one.gradients] == shapes and not _are_other(one.values, now)
        ]  # fmt: skip
        grads = [p.grad for p in e.params]
        if not passes or any(g is None for g in grads):
            return
        parts = np.stack([flat(one.gradients) for one in passes])
        whole = flat(_values(e.engine, grads))
        shares, *_ = np.linalg.lstsq(parts.T, whole, rcond=None)
        if np.linalg.norm(shares @ parts - whole) > _EXACT * np.linalg.norm(whole):
            return
        means = [s for one in passes if (s := one.scale) and s.reduction == "mean"]
        if 1 < len(passes) == len(means) and all(
            abs(k / s.divisor - 1) < _EXACT for k, s in zip(shares, means, strict=True)
        ):
            self._note("sum", e.place, len(passes))

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        row = self._row(e)
        if row is not None:
            now = _values(e.engine, e.params)
            row.steps += 1
            row.bound = [(i, some, old) for i, some, old in row.bound if _differ(now[i][some], old)]
            row.first = row.last = ()
        self._passes.clear()


def _values(engine: Engine, tensors: Sequence[Any]) -> Values:
    return [np.array(engine.array(x)) for x in tensors]


def _differ(x: Array, y: Array) -> bool:
    """Whether more than half of the elements are other ones."""
    return bool(np.count_nonzero(x != y) > 0.5 * x.size)


def _are_other(some: Values, others: Values) -> bool:
    return len(some) != len(others) or any(
        x.shape != y.shape or bool((x != y).any()) for x, y in zip(some, others, strict=True)
    )


def _set_elements(before: Values, after: Values) -> list[tuple[int, Any, Array]]:
    """Elements that were changed, where others of the same weight were not: as a mask, or a bound,
    changes them."""
    found: list[tuple[int, Any, Array]] = []
    for i, (x, y) in enumerate(zip(before, after, strict=True)):
        some = x != y
        if 0 < np.count_nonzero(some) < some.size:
            found.append((i, some, y[some]))
    return found
