"""Optimizers that are made again and again, whose means are lost each time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row

_LEAST = 3


class _Remade(NamedTuple):
    """An optimizer that is made at a line again and again, of the same parameters."""

    kind: str
    place: Place | None
    times: int


class _Life:
    """What became of optimizers of the same parameters: how many were made at a line, and how many
    steps they took in all."""

    def __init__(self) -> None:
        self.made = self.steps = 0


@final
class Owners(Part):
    """Finds `state_lost`."""

    title = "how often optimizers are made"
    rows = (
        Row(
            "state_lost",
            lambda f: f.remade(),
            "{kind} was made {times} times of the same parameters on this line: what it keeps of "
            "earlier gradients begins at zero each time",
            "make it once, in front of the loop",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._lives = defaultdict[tuple[Place, str, frozenset[int]], _Life](_Life)
        self._life_of: dict[int, _Life] = {}  # by the id of an optimizer

    def seen(self) -> Sequence[str]:
        """How many were made."""
        made = sum([life.made for life in self._lives.values()])
        return [f"{made} optimizers"] if made else []

    @on(events.Built)
    def _built(self, e: events.Built) -> None:
        if e.place is None or not _keeps(e.optimizer):
            return
        made = e.place, type(e.optimizer).__name__, e.ids
        self._life_of[id(e.optimizer)] = life = self._lives[made]
        life.made += 1

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        if (life := self._life_of.get(id(e.optimizer))) is not None:
            life.steps += 1

    @on(events.Loaded)
    def _loaded(self, e: events.Loaded) -> None:
        """With other values another training begins."""
        self._lives.clear()
        self._life_of.clear()

    def remade(self) -> list[_Remade]:
        """By line: those that were made again and again, and took steps each time."""
        used = {k: x.made for k, x in self._lives.items() if x.steps >= x.made - 1}
        return [_Remade(kind, at, n) for (at, kind, _), n in used.items() if n >= _LEAST]


def _keeps(optimizer: Any) -> bool:
    """Whether an optimizer keeps anything of gradients."""
    groups: list[dict[str, Any]] = getattr(optimizer, "param_groups", [])
    plain = "SGD" in type(optimizer).__name__
    return not plain or any(group.get("momentum") for group in groups)
