"""Order: whose gradient a step takes, and what was computed for nothing."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import NamedTuple, final

from chainrule.engine.source_text import file_lines
from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Pass, Trainer, Use
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.training.text import edits
from chainrule.verify.trees import tree_of_file


class _Stray(NamedTuple):
    """An optimizer whose steps take what a pass has left that was made for another one."""

    trainer: Trainer
    at: Place

    @property
    def own(self) -> Place | None:
        """Where its own passes are."""
        return self.trainer.taken[0][-1].place


def _strays(trainers: Sequence[Trainer]) -> Iterator[_Stray]:
    """A generator's loss flows through the discriminator. Whoever resets the discriminator's
    gradients behind its step, and not in front of its backward pass, trains it by both."""
    for row in trainers:
        found = _taken_as_well(row.taken) if row.is_new else []
        if found and row.resets >= len(row.taken) - 1:  # else that is what is wrong
            yield _Stray(row, Counter(found).most_common(1)[0][0])


def _taken_as_well(taken: Sequence[Sequence[Use]]) -> list[Place]:
    """Where the passes are that all steps but the first, two at least, have taken as well, each
    before their own, and each taken by another optimizer before."""
    if len(taken) <= 2 or not taken[0] or any(use.by_others for use in taken[0]):
        return []
    own = [use.place for use in taken[0]]
    found: list[Place] = []
    for uses in taken[1:]:
        more = uses[: len(uses) - len(own)]
        if not more or [use.place for use in uses[len(more) :]] != own:
            return []
        places = [use.place for use in more if use.by_others and use.place not in own]
        found += [place for place in places if place is not None]
        if len(places) < len(more):
            return []
    return found


def _is_in_time(trainer: Trainer) -> bool:
    """Whether any backward pass was of a loss behind its step: a loop may begin with the step."""
    return trainer.in_time > 0


@final
class Order(Part):
    """Finds `stale` where a step comes between a loss and its backward pass, and `not_reset`
    between two optimizers."""

    title = "order of losses, backward passes and steps"
    rows = (
        Row(
            "stale",
            lambda f: [t for t in f.history.trainers.values() if t.begins_empty and t.late >= 2],
            "{late} times {kind} steps between a loss and its backward pass: its first step has no "
            "gradient, each later one that of the loss before, where the parameters were then",
            "step (and reset) behind the backward pass",
            unless=(_is_in_time,),
            place=lambda t: t.stepped_at,
            edit=lambda t: edits.move_behind(t.stepped_at, t.backward_at),
        ),
        Row(
            "not_reset",
            lambda f: _strays(list(f.history.trainers.values())),
            lambda s: (
                f"the first step of {s.trainer.kind} takes what the backward pass at {s.own} has "
                f"made, all {len(s.trainer.taken) - 1} later ones what the one at {s.at} has left "
                "in its parameters as well, which another optimizer had used by then"
            ),
            lambda s: (
                f"{s.trainer.name or 'its optimizer'}.zero_grad() in front of its own backward pass"
            ),
            "error",
            place=lambda s: s.trainer.reset_at or s.own,
            detail=lambda s: "this resets it before that" if s.trainer.reset_at else "",
            edit=lambda s: edits.insert_before(
                s.own, f"{s.trainer.name}.zero_grad()" if s.trainer.name else ""
            ),
        ),
    )


class _Wasted(NamedTuple):
    """A line whose backward passes are reset before anything has used them."""

    at: Place
    reset_at: Place
    times: int
    steps: int
    """Of the optimizer whose gradients they were."""


def _is_not_usual(wasted: _Wasted) -> bool:
    """Whether it was otherwise in more than one step."""
    return wasted.times < wasted.steps - 1


def _is_read(wasted: _Wasted) -> bool:
    """Whether code there looks at gradients by itself: then they were made for that."""
    places = wasted.at, wasted.reset_at
    return any(place.line in line for place in places for line in _readers(place.file))


@final
class Wasted(Part):
    """Finds `reset_misplaced` between two backward passes: all that one has made is reset, and the
    step takes what a later one makes."""

    title = "backward passes"
    rows = (
        Row(
            "reset_misplaced",
            lambda f: f.wasted(),
            "in {times} steps all that the backward pass at {at} has made was reset before the "
            "step, which took the gradients of a later one alone",
            "reset once for every step, before its first backward pass",
            "error",
            (is_seldom, _is_not_usual, _is_read),
            place=lambda w: w.reset_at,
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._open: list[tuple[Pass, dict[int, tuple[int, ...]]]] = []
        """Passes that nothing has used, and how parameters of optimizers looked then: one that was
        moved since was moved along its gradient, or by it."""
        self._lost: list[Pass] = []
        self._within = False
        """Whether an optimizer calls a closure."""
        self._count = 0
        self._steps = Counter[int]()
        self._found = Counter[tuple[int, Place, Place]]()

    def seen(self) -> Sequence[str]:
        """How many passes there were."""
        total = self._steps.total()
        return [f"{self._count} in {total} steps"] if total else []

    def wasted(self) -> list[_Wasted]:
        """By optimizer, line and reset."""
        rows = self._found.items()
        return [_Wasted(at, reset, n, self._steps[by]) for (by, at, reset), n in rows]

    @on(events.BackwardEnds)
    def _ended(self, e: events.BackwardEnds) -> None:
        self._count += 1
        made = self.history.newest
        if made is not None and e.error is None and e.touched and not self._within:
            self._open.append((made, self._looks(e.begin.engine, e.touched)))

    def _looks(self, engine: Engine, ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
        known = self.history.optimized()
        return {i: engine.token(known[i]) for i in ids if i in known}

    @on(events.Zeroed)
    def _zeroed(self, e: events.Zeroed) -> None:
        rows = [row for row in self._open if self._looks(e.engine, row[1]) == row[1]]
        self._lost += [one for one, _ in rows if not one.left]
        self._open = [row for row in rows if row[0].left]

    @on(events.Clipped)
    def _clipped(self, e: events.Clipped) -> None:
        self._use(e.ids)

    def _use(self, ids: Set[int]) -> set[Place | None]:
        used = [one for one, _ in self._open if one.left & ids]
        self._open = [row for row in self._open if row[0] not in used]
        return {one.place for one in used}

    @on(events.StepBegins)
    def _begins(self, e: events.StepBegins) -> None:
        self._within = e.closure

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        self._within = False
        by, own = id(e.optimizer), e.ids
        self._steps[by] += 1
        mine = [one for one in self._lost if one.touched & own]
        self._lost = [one for one in self._lost if one not in mine]
        used = self._use(own)
        if not used:
            return  # it has no gradient at all: that is another finding
        for one in mine:  # those of one line are an accumulation, which is another finding, too
            if one.place not in used and one.place is not None and one.reset_at is not None:
                self._found[by, one.place, one.reset_at] += 1


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
