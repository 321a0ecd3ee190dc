"""Resets: gradients that a step has used and the next backward adds to, and ones dropped unused.

A gradient is *used* when an optimizer has stepped with it. If the next backward pass finds it as it
was and adds to it, the sum is *mixed*, until somebody resets it. Only a step that takes a mixed
gradient is a mistake: a GAN's discriminator gets mixed gradients from the generator's loss, and
resets them before it uses any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.finding import checked, finding
from chainrule.verify.training.text import edits


class _Used(NamedTuple):
    """A gradient that a step has used: how it looked then."""

    token: tuple[int, ...]
    norm: float


@dataclass(eq=False)
class _Optimizer:
    """What is known of one optimizer."""

    optimizer: Any
    steps: int = 0
    fresh: dict[int, Any] = field(default_factory=dict[int, Any])
    """Parameters that got a gradient since the last step, by id."""
    pending: float = 0.0
    """Norm of the gradients that the last reset since then has dropped."""
    mixed_steps: list[tuple[int, int, float, float]] = field(
        default_factory=list[tuple[int, int, float, float]]
    )
    """Steps with mixed gradients: number, how many parameters, norm in all, norm of the old."""
    empty_steps: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    """Steps whose gradients were dropped: number, norm of what was dropped."""
    stepped_at: Place | None = None
    closure: bool = False
    name: str = ""
    """What the program calls it."""
    backward_at: Place | None = None
    """The last backward pass that reached its parameters."""
    own_pass_at: Place | None = None
    """The one before its last step."""
    zeroed_at: Place | None = None
    others_zeroed_at: Place | None = None
    """Where another optimizer's gradients are reset between its steps, and none of its own."""


@final
class Resets(Part):
    """Finds `not_reset` and `reset_misplaced`."""

    title = "resets of gradients"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[int, _Optimizer] = {}
        self._used: dict[int, _Used] = {}
        self._mixed: dict[int, float] = {}  # norm of the old gradient, by id of the parameter
        self._suspect: dict[int, float] = {}
        self._params: dict[int, Any] = {}
        self._zeroed_at: Place | None = None

    def listens(self) -> Handlers:
        """Steps, backward passes and resets."""
        return {
            events.BackwardBegins: self._begins,
            events.BackwardEnds: self._ends,
            events.Zeroed: self._zeroed,
            events.StepBegins: self._steps,
            events.ClosureEnds: self._called,
            events.StepEnds: self._stepped,
            events.Built: self._built,
        }

    def _built(self, e: events.Built) -> None:
        self._row(e.engine, e.optimizer)

    def _row(self, engine: Engine, optimizer: Any) -> _Optimizer:
        row = self._rows.get(id(optimizer))
        if row is None:
            row = self._rows[id(optimizer)] = _Optimizer(optimizer)
        for p in engine.params(optimizer):
            self._params.setdefault(id(p), p)
        return row

    # --- backward passes

    def _begins(self, e: events.BackwardBegins) -> None:
        self._forget_reset(e.engine)
        same = {
            key: used
            for key, used in self._used.items()
            if (g := self._params[key].grad) is not None and e.engine.token(g) == used.token
        }
        norms = e.engine.norms([self._params[key].grad for key in same])
        self._suspect = {  # `.grad.data.zero_()` leaves the token as it was
            key: used.norm
            for (key, used), norm in zip(same.items(), norms, strict=True)
            if used.norm > 0 and abs(norm - used.norm) <= 1e-6 * used.norm
        }

    def _forget_reset(self, engine: Engine) -> None:
        """Mixed gradients that were reset are mixed no longer."""
        if not self._mixed:
            return
        here = [key for key in self._mixed if self._params[key].grad is not None]
        norms = engine.norms([self._params[key].grad for key in here])
        kept = {key for key, norm in zip(here, norms, strict=True) if norm != 0}
        self._mixed = {key: old for key, old in self._mixed.items() if key in kept}

    def _ends(self, e: events.BackwardEnds) -> None:
        for key in e.touched & self._suspect.keys():
            self._mixed[key] = self._suspect[key]
        self._suspect = {}
        for key in e.touched:
            self._used.pop(key, None)
        for row in self._rows.values():
            own = {id(p): p for p in e.begin.engine.params(row.optimizer) if id(p) in e.touched}
            if own:
                row.fresh.update(own)
                row.backward_at = e.begin.place

    # --- resets

    def _zeroed(self, e: events.Zeroed) -> None:
        self._zeroed_at = e.place
        dropped = {id(p) for p in e.params}
        for row in self._rows.values():
            lost = [p.grad for key, p in row.fresh.items() if key in dropped and p.grad is not None]
            norm = _length(e.engine.norms(lost))
            if norm:
                row.pending, row.zeroed_at = norm, e.place
            own = {id(p) for p in e.engine.params(row.optimizer)}
            row.others_zeroed_at = e.place if e.place and not own & dropped else None

    # --- steps

    def _steps(self, e: events.StepBegins) -> None:
        row = self._row(e.engine, e.optimizer)
        row.steps += 1
        row.stepped_at = e.place or row.stepped_at
        row.own_pass_at = row.backward_at
        row.closure = row.closure or e.closure
        row.name = row.name or edits.name_of(e.optimizer)
        if not e.closure:
            self._look(e.engine, row)

    def _called(self, e: events.ClosureEnds) -> None:
        row = self._row(e.engine, e.optimizer)
        self._look(e.engine, row)
        self._use(events.StepEnds(e.engine, e.optimizer, e.place), row)

    def _stepped(self, e: events.StepEnds) -> None:
        self._use(e, self._row(e.engine, e.optimizer))

    def _look(self, engine: Engine, row: _Optimizer) -> None:
        """Whether the gradients that a step takes are what they should be."""
        self._forget_reset(engine)
        own = engine.params(row.optimizer) if self._mixed else []
        old = [self._mixed[id(p)] for p in own if id(p) in self._mixed]
        if old:
            grads = [p.grad for p in own if p.grad is not None]
            norm = _length(engine.norms(grads))
            row.mixed_steps.append((row.steps, len(old), norm, _length(old)))
        left = [p.grad for p in row.fresh.values() if p.grad is not None]
        lost = row.pending or not left  # what is set to None by hand is not told of
        if row.fresh and lost and not any(engine.norms(left)):
            row.empty_steps.append((row.steps, row.pending))

    def _use(self, e: events.StepEnds, row: _Optimizer) -> None:
        tokens = e.tokens
        for key, norm in e.gradients.items():
            self._used[key] = _Used(tokens[key], norm)
            self._mixed.pop(key, None)
        row.fresh, row.pending = {}, 0.0

    # --- findings

    def found(self, ledger: Ledger) -> list[Finding]:
        """At most one of each kind for each optimizer."""
        found: list[Finding] = []
        for row in self._rows.values():
            if row.steps:
                how = f"{row.steps} steps of {_kind(row)}"
                checked(ledger, self.title, how)
            if row.mixed_steps:
                found.append(_not_reset(row))
            if row.empty_steps:
                found.append(_misplaced(row))
        return found


def _kind(row: _Optimizer) -> str:
    return type(row.optimizer).__name__


def _length(norms: list[float]) -> float:
    return sum([n * n for n in norms]) ** 0.5


def _not_reset(row: _Optimizer) -> Finding:
    every = len({step for step, *_ in row.mixed_steps}) >= max(1, row.steps - 1)
    number, count, norm, old = row.mixed_steps[-1]
    says = [
        f"step {n} of {_kind(row)}: the gradient (norm {g:.3g}) still holds the one that the step "
        f"before it has used (norm {o:.3g})"
        for n, _, g, o in row.mixed_steps[:4]
    ]
    because = (
        f"{count} parameters enter step {number} with the gradient of an earlier step in theirs: "
        f"norm {norm:.3g}, of which {old:.3g} were used before"
    )
    return finding(
        "error" if every else "warning",
        "not_reset",
        because,
        "reset the gradients once for every step, before its first backward pass or behind it: "
        "optimizer.zero_grad()",
        _beside(row) or row.backward_at or row.stepped_at,
        detail=f"added up at {row.backward_at}" if row.backward_at else "",
        evidence=says,
        edit=_resetting(row),
    )


def _beside(row: _Optimizer) -> Place | None:
    """Where other gradients of the same backward pass are reset."""
    return row.others_zeroed_at if row.backward_at == row.own_pass_at else None


def _resetting(row: _Optimizer) -> edits.Edit | None:
    """A reset behind the step, which is right however many passes are accumulated for it; in front
    of its own pass, if that of another optimizer comes in between."""
    reset = row.name and f"{row.name}.zero_grad()"
    if (beside := _beside(row)) is not None:
        return edits.followed(beside, reset)
    if row.closure:
        return edits.inserted(row.backward_at, reset)
    if row.backward_at != row.own_pass_at:
        return edits.inserted(row.own_pass_at, reset)
    return edits.followed(row.stepped_at, reset)


def _misplaced(row: _Optimizer) -> Finding:
    number, norm = row.empty_steps[-1]
    all_ = len(row.empty_steps) >= row.steps
    where = f" at {row.zeroed_at}" if row.zeroed_at else ""
    made = f" of norm {norm:.3g}" if norm else ""
    because = (
        f"step {number} of {_kind(row)} gets no gradient: the backward pass made one{made}, which "
        f"was reset{where} before the step"
    )
    return finding(
        "error" if all_ or len(row.empty_steps) > 1 else "warning",
        "reset_misplaced",
        because,
        "move the reset in front of the backward pass, or behind the step",
        row.zeroed_at or row.stepped_at,
        detail=f"in {len(row.empty_steps)} of {row.steps} steps",
        edit=edits.moved_behind(row.zeroed_at, row.stepped_at),
    )
