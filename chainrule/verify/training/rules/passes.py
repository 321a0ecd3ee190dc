"""Order: whose gradient a step takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Trainer, Use
from chainrule.verify.training.record.bus import Part
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import edits


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
