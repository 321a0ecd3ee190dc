"""Resets: gradients that a step has used and the next pass adds to, and ones dropped unused.

Only a step that takes a mixed gradient is a mistake: a GAN's discriminator gets mixed gradients
from the generator's loss, and resets them before it uses any.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Trainer
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.training.text import edits
from chainrule.verify.trees import tree_of_file


@dataclass(frozen=True)
class _Mixed:
    """A step that took mixed gradients."""

    step: int
    count: int
    """Of parameters."""
    norm: float
    old: float
    """Norm of what was used before."""


@dataclass(eq=False)
class _Steps:
    """The steps of one optimizer."""

    trainer: Trainer
    fresh: set[int] = field(default_factory=set[int])
    """Ids of parameters that got a gradient since the last step."""
    pending: float = 0.0
    """Norm of the gradients that the last reset since then has dropped."""
    mixed: list[_Mixed] = field(default_factory=list[_Mixed])
    empty: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    """Steps whose gradients were dropped: number, norm of what was dropped."""
    zeroed_at: Place | None = None
    others_zeroed_at: Place | None = None
    """Where another optimizer's gradients are reset between its steps, and none of its own."""

    @property
    def last(self) -> _Mixed:
        """The last step with mixed gradients."""
        return self.mixed[-1]

    @property
    def is_usual(self) -> bool:
        """Whether all steps but the first took mixed gradients."""
        return len({m.step for m in self.mixed}) >= max(1, self.trainer.steps - 1)

    @property
    def beside(self) -> Place | None:
        """Where other gradients of the same backward pass are reset."""
        t = self.trainer
        return self.others_zeroed_at if t.backward_at == t.own_pass_at else None

    @property
    def missing(self) -> edits.Edit | None:
        """A reset behind the step, which is right however many passes are accumulated for it; in
        front of its own pass, if that of another optimizer comes in between."""
        t = self.trainer
        reset = t.name and f"{t.name}.zero_grad()"
        if self.beside is not None:
            return edits.insert_behind(self.beside, reset)
        if t.has_closure:
            return edits.insert_before(t.backward_at, reset)
        if t.backward_at != t.own_pass_at:
            return edits.insert_before(t.own_pass_at, reset)
        return edits.insert_behind(t.stepped_at, reset)


def _each_mixed(steps: _Steps) -> list[str]:
    return [
        f"step {m.step} of {steps.trainer.kind}: the gradient (norm {m.norm:.3g}) still holds the "
        f"one that the step before it has used (norm {m.old:.3g})"
        for m in steps.mixed[:4]
    ]


def _dropped(s: _Steps) -> str:
    number, norm = s.empty[-1]
    where = f" at {s.zeroed_at}" if s.zeroed_at else ""
    made = f" of norm {norm:.3g}" if norm else ""
    return (
        f"step {number} of {s.trainer.kind} gets no gradient: the backward pass made one{made}, "
        f"which was reset{where} before the step"
    )


@final
class Resets(Part):
    """Finds `not_reset` and `reset_misplaced`."""

    title = "resets of gradients"
    rows = (
        Row(
            "not_reset",
            lambda f: [s for s in f.steps.values() if s.mixed],
            "{last.count} parameters enter step {last.step} with the gradient of an earlier step "
            "in theirs: norm {last.norm:.3g}, of which {last.old:.3g} were used before",
            "reset the gradients once for every step, before its first backward pass or behind it: "
            "optimizer.zero_grad()",
            lambda s: "error" if s.is_usual else "warning",
            place=lambda s: s.beside or s.trainer.backward_at or s.trainer.stepped_at,
            detail=lambda s: f"added up at {at}" if (at := s.trainer.backward_at) else "",
            evidence=_each_mixed,
            edit=lambda s: s.missing,
        ),
        Row(
            "reset_misplaced",
            lambda f: [s for s in f.steps.values() if s.empty],
            _dropped,
            "move the reset in front of the backward pass, or behind the step",
            lambda s: "error" if len(s.empty) >= s.trainer.steps or len(s.empty) > 1 else "warning",
            place=lambda s: s.zeroed_at or s.trainer.stepped_at,
            detail=lambda s: f"in {len(s.empty)} of {s.trainer.steps} steps",
            edit=lambda s: edits.move_behind(s.zeroed_at, s.trainer.stepped_at),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.steps: dict[int, _Steps] = {}
        """By id of the optimizer."""

    def seen(self) -> Sequence[str]:
        """How many steps of which optimizers."""
        rows = [s.trainer for s in self.steps.values() if s.trainer.steps]
        return [f"{t.steps} steps of {t.kind}" for t in rows]

    @on(events.Built)
    def _of(self, e: events.AtOptimizer) -> _Steps:
        return self.steps.setdefault(id(e.optimizer), _Steps(self.history.of(e)))

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        for s in self.steps.values():
            s.fresh |= e.touched & s.trainer.ids

    @on(events.Zeroed)
    def _zeroed(self, e: events.Zeroed) -> None:
        held = {id(p): p.grad for p in e.params if p.grad is not None}
        for s in self.steps.values():
            lost = [held[key] for key in s.fresh & held.keys()]
            if norm := math.hypot(*e.engine.norms(lost)):
                s.pending, s.zeroed_at = norm, e.place
            apart = s.trainer.ids.isdisjoint(e.ids)
            s.others_zeroed_at = e.place if e.place and apart else None

    @on(events.StepBegins, events.ClosureEnds)
    def _take(self, e: events.StepBegins | events.ClosureEnds) -> None:
        s = self._of(e)
        if isinstance(e, events.StepBegins) and e.closure:
            return
        t, held = s.trainer, [p for p in e.params if p.grad is not None]
        if t.mixed:
            norm = math.hypot(*e.engine.norms([p.grad for p in held]))
            s.mixed.append(_Mixed(t.steps, len(t.mixed), norm, math.hypot(*t.mixed)))
        left = [p.grad for p in held if id(p) in s.fresh]
        lost = s.pending or not left  # what is set to None by hand is not told of
        if s.fresh and lost and not any(e.engine.norms(left)):
            s.empty.append((t.steps, s.pending))
        if isinstance(e, events.ClosureEnds):
            s.fresh, s.pending = set(), 0.0

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        s = self._of(e)
        s.fresh, s.pending = set(), 0.0


@dataclass(frozen=True)
class _Added:
    """A backward pass that added to gradients with which the program had changed parameters."""

    serial: int
    count: int
    norm: float
    place: Place | None
    spared: bool
    """Whether gradients of other parameters were reset."""
    reset: str
    """The statement that is missing."""
    times: int = 0

    @property
    def beside(self) -> Place | None:
        """The only line that resets gradients, if others were reset."""
        return _only_reset(self.place) if self.spared else None

    @property
    def edit(self) -> edits.Edit | None:
        """The line with what is missing, if it is missing in every step."""
        missing = not self.beside and self.times == self.serial - 1
        return edits.insert_before(self.place, self.reset) if missing else None


@final
class ByHand(Part):
    """Finds `not_reset` in loops without an optimizer."""

    title = "resets of gradients, without an optimizer"
    rows = (
        Row(
            "not_reset",
            lambda f: [replace(f.added[-1], times=len(f.added))] if f.added else [],
            "backward pass {serial} adds to the gradients of {count} parameters (norm {norm:.3g}) "
            "with which they were changed before",
            lambda a: (
                "after the change of the parameters: p.grad = None (or p.grad.zero_())"
                + (", for all of them" if a.beside else "")
            ),
            "error",
            (is_seldom,),
            place=lambda a: a.beside or a.place,
            detail="in {times} steps",
            edit=lambda a: a.edit,
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.added: list[_Added] = []
        self._spared = False

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        rows = [self.history.gradient(x) for x in e.graph.leaves]
        self._spared = any(row.last is not None and not row.passes for row in rows)

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        one, optimized = self.history.newest, self.history.optimized()
        free = one.onto - optimized.keys() if one is not None else set[int]()
        leaves = [x for x in e.begin.graph.leaves if id(x) in free]
        if leaves:
            norm = math.hypot(*[self.history.gradient(x).mixed for x in leaves])
            reset = self.added[0].reset if self.added else edits.drop_statement(leaves)
            row = _Added(e.begin.serial, len(leaves), norm, e.begin.place, self._spared, reset)
            self.added.append(row)


def _only_reset(at: Place | None) -> Place | None:
    """The only line of a file that resets gradients; None if there are several."""
    tree = ast.Module([], []) if at is None else tree_of_file(at.file)
    found = {n.lineno for n in ast.walk(tree) if isinstance(n, ast.stmt) and _is_reset(n)}
    return Place(at.file, found.pop()) if at is not None and len(found) == 1 else None


def _is_reset(n: ast.stmt) -> bool:
    """`p.grad.zero_()`, `p.grad.data.zero_()` or `p.grad = None`."""
    text = ast.unparse(n) if isinstance(n, ast.Expr | ast.Assign) else ""
    return text.endswith((".grad.zero_()", ".grad.data.zero_()", ".grad = None"))
