"""Backward passes for nothing: all that one has made is reset before a step, or anything else, has
used it, and the step takes what a later one makes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

from chainrule.source_text import file_lines
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.finding import checked, finding
from chainrule.verify.trees import tree_of_file

_TIMES = 2
"""In so many steps it must be so, and in all but one."""


@dataclass(eq=False)
class _Pass:
    """A backward pass that no step has used yet."""

    touched: frozenset[int]
    left: set[int]
    """Ids of the parameters that still have what it gave them."""
    place: Place | None
    looks: dict[int, tuple[int, ...]]
    """How those of them looked that an optimizer has, by id: one that was moved since then was
    moved along its gradient, or by it."""
    reset_at: Place | None = None


@final
class Passes(Part):
    """Finds `reset_misplaced`, between two backward passes."""

    title = "backward passes"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._open: list[_Pass] = []
        self._lost: list[_Pass] = []
        self._within = False  # an optimizer that calls a closure
        self._count = 0
        self._steps = Counter[int]()  # by id of the optimizer
        self._params: dict[int, Any] = {}  # those of all optimizers, by id
        self._found: dict[tuple[int, Place, Place], int] = {}

    def listens(self) -> Handlers:
        """Backward passes, resets, steps; clipping looks at gradients as well."""
        return {
            events.Built: self._built,
            events.BackwardEnds: self._ended,
            events.Zeroed: self._zeroed,
            events.Clipped: self._clipped,
            events.StepBegins: self._begins,
            events.StepEnds: self._stepped,
        }

    def _built(self, e: events.Built) -> None:
        self._params |= {id(p): p for p in e.params}

    def _ended(self, e: events.BackwardEnds) -> None:
        self._count += 1
        if e.error is None and e.touched and not self._within:
            looks = self._looks(e.begin.engine, e.touched)
            self._open.append(_Pass(e.touched, set(e.touched), e.begin.place, looks))

    def _looks(self, engine: Engine, ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
        return {i: engine.token(self._params[i]) for i in ids if i in self._params}

    def _zeroed(self, e: events.Zeroed) -> None:
        ids = {id(p) for p in e.params}
        self._open = [one for one in self._open if self._looks(e.engine, one.looks) == one.looks]
        for one in self._open:
            if one.left and one.left <= ids:
                one.reset_at = e.place
                self._lost.append(one)
            one.left -= ids
        self._open = [one for one in self._open if one.left]

    def _clipped(self, e: events.Clipped) -> None:
        self._use({id(p) for p in e.params})

    def _use(self, ids: set[int]) -> list[_Pass]:
        used = [one for one in self._open if one.left & ids]
        self._open = [one for one in self._open if one not in used]
        return used

    def _begins(self, e: events.StepBegins) -> None:
        self._params |= {id(p): p for p in e.params}
        self._within = e.closure

    def _stepped(self, e: events.StepEnds) -> None:
        self._within = False
        by = id(e.optimizer)
        self._steps[by] += 1
        own = {id(p) for p in e.params}
        mine = [one for one in self._lost if one.touched & own]
        self._lost = [one for one in self._lost if one not in mine]
        used = {one.place for one in self._use(own)}
        if not used:
            return  # it has no gradient at all: that is another finding
        for one in mine:  # those of one line are an accumulation, which is another finding, too
            if one.place not in used and one.place is not None and one.reset_at is not None:
                key = by, one.place, one.reset_at
                self._found[key] = self._found.get(key, 0) + 1

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each backward pass and reset."""
        if self._steps:
            checked(ledger, self.title, f"{self._count} in {self._steps.total()} steps")
        return [
            _wasted(place, reset_at, times)
            for (by, place, reset_at), times in self._found.items()
            if times >= max(_TIMES, self._steps[by] - 1) and not _reads(place, reset_at)
        ]


def _wasted(place: Place, reset_at: Place, steps: int) -> Finding:
    return finding(
        "error",
        "reset_misplaced",
        f"in {steps} steps all that the backward pass at {place} has made was reset before the "
        "step, which took the gradients of a later one alone",
        "reset once for every step, before its first backward pass",
        reset_at,
    )


def _reads(*places: Place) -> bool:
    """Whether code at these places looks at gradients by itself: then they were made for that."""
    return any(place.line in line for place in places for line in _readers(place.file))


@lru_cache(maxsize=64)
def _readers(file: str) -> tuple[range, ...]:
    """Lines of the functions, and of what is outside of all, in which `.grad` is asked for."""
    tree = tree_of_file(file)
    own = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    asked = [
        n.lineno for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and n.attr == "grad"
        and ast.unparse(n.value).rpartition(".")[2] not in ("autograd", "func", "chainrule", "cr")
    ]  # fmt: skip
    spans = [range(n.lineno, (n.end_lineno or n.lineno) + 1) for n in own]
    found = [min([s for s in spans if line in s], key=len, default=None) for line in asked]
    whole = range(1, len(file_lines(file)) + 1)
    return tuple([whole if span is None else span for span in found])
