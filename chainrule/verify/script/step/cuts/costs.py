"""What a cut of a recorded step costs: how much of which parameter's gradient is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chainrule.verify.place import Place
from chainrule.verify.script.step.cuts.purposes import Purpose, differentiated_roots, purpose
from chainrule.verify.script.step.cuts.reopened_cuts import Lost
from chainrule.verify.script.step.cuts.slices import Cut, Slice

RELEVANT = 1e-3
"""Share of a parameter's gradient that may be lost without a word."""
ROUNDINGS = 8.0
"""So many roundings of the least precise value may be lost as well."""
NOISE = 1e-5
"""Share of the largest lost or kept gradient below which a gradient is rounding."""


@dataclass(frozen=True)
class Root:
    """A parameter behind a cut."""

    ident: int
    name: str
    kept: float
    """Norm of the gradient that it gets from this loss."""
    lost: float
    """Norm of what it would get through the cut."""

    @property
    def share(self) -> float:
        """How much of the gradient is lost."""
        return self.lost / (self.kept + self.lost) if self.lost else 0.0


@dataclass(frozen=True)
class CutCost:
    """A cut on the way to one loss, and what it costs."""

    kind: str
    place: Place
    where: Purpose
    roots: tuple[Root, ...]
    allowed: float
    """Share of a gradient that may be lost."""
    error: float
    """Of the gradient with the cuts open (see `Lost`)."""
    turn: int
    """That of the loss; see `Step`."""
    loss: int
    """Which loss of the step it is."""
    by: frozenset[int]
    """Ids of the leaves behind what a derivative was taken by, if the cut is one."""


def cost_of_cut(
    part: Slice, cut: Cut, lost: Lost, turn: int, loss: int, names: Mapping[int, str]
) -> CutCost:
    """A cut in that loss, of that turn, with all that is needed of the tape.

    `names` are those of parameters, by their ids.
    """
    tensors = {slot: t for slot, t in part.tape.roots.items() if t.is_leaf}
    loudest = max([*lost.kept.values(), *lost.lost.values()], default=0.0)
    identity = part.tape.identity
    roots = [
        Root(identity(t), names.get(id(t), "a leaf"), lost.kept[slot], lost.lost[slot])
        for slot, t in tensors.items()
        if lost.lost[slot] > NOISE * loudest
    ]
    allowed = max(RELEVANT, ROUNDINGS * max([e.eps for e in part.entries]))
    where = purpose(part, cut)
    by = differentiated_roots(part, cut) if where in ("derivative", "wasted") else ()
    ids = frozenset([identity(part.tape.roots[s]) for s in by])
    return CutCost(cut.kind, cut.place, where, tuple(roots), allowed, lost.error, turn, loss, ids)
