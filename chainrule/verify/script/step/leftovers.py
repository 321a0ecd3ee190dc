"""What piles up from step to step: hooks that are registered again, and gradients that another
optimizer's backward pass has left."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from types import CodeType
from typing import Any, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Pass
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row, is_seldom


class _Left(NamedTuple):
    """A step with gradients of a pass that was another optimizer's."""

    place: Place
    """Of its reset, if the other pass comes next; else of its own pass."""
    kind: str
    own: Place
    """Of its own pass."""
    at: Place
    """Of the other one."""
    times: int


class _Piled(NamedTuple):
    """A hook that a parameter has several times."""

    place: Place
    often: int


@final
class Leftovers(Part):
    """Finds `not_reset` where a generator's pass goes through a discriminator, and `hooked`."""

    title = "what is left of earlier passes"
    rows = (
        Row(
            "not_reset",
            lambda f: f.left(),
            "in {times} steps {kind} takes what the backward pass at {at} has left in its "
            "parameters: another optimizer had stepped with that by then, and its own pass at "
            "{own} does not reach what that one trains",
            "set the gradients to zero in front of its own backward pass",
            "error",
            (is_seldom,),
        ),
        Row(
            "hooked",
            lambda f: [_Piled(at, n) for at, n in f.piled.items()],
            "a parameter has this hook {often} times: it was registered again and again, and each "
            "of them changes the gradient once more",
            "register it once, before the loop, or remove() the handle of the last one",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._found = Counter[tuple[Place, str, Place, Place]]()
        self.piled: dict[Place, int] = {}

    def seen(self) -> Sequence[str]:
        """Nothing that is worth a line."""
        return []

    def left(self) -> list[_Left]:
        """By line and optimizer."""
        return [_Left(*key, times) for key, times in self._found.items()]

    @on(events.StepBegins)
    def _begins(self, e: events.StepBegins) -> None:
        for p in e.params:
            self._count_hooks(p)
        row = self.history.of(e)
        passes = self.history.held(row.params)
        if e.closure or len(passes) < 2 or (own := passes[-1]).place is None:
            return
        for one in passes[:-1]:
            if one.place is not None and one.place != own.place and self._is_others(e, one, own):
                at = row.reset_at if one is passes[0] else None
                self._found[at or own.place, row.kind, own.place, one.place] += 1

    def _is_others(self, e: events.StepBegins, one: Pass, own: Pass) -> bool:
        """Whether another optimizer has used a pass, whose parameters the own one does not reach,
        and this one has used it never."""
        users = one.used_by - {id(e.optimizer)}
        others = [self.history.trainers[key] for key in users if key in self.history.trainers]
        fresh = id(e.optimizer) not in one.used_by
        return fresh and bool(others) and all(o.ids.isdisjoint(own.touched) for o in others)

    def _count_hooks(self, p: Any) -> None:
        """Count hooks of a tensor that have the same code and hold the same."""
        hooks: Any = getattr(p, "_backward_hooks", None)
        if not hooks or len(hooks) < 2:
            return
        found: list[tuple[CodeType, Any]] = []
        for hook in map(inspect.unwrap, hooks.values()):
            code = getattr(hook, "__code__", None)
            cells = [c.cell_contents for c in getattr(hook, "__closure__", None) or ()]
            if isinstance(code, CodeType):
                found.append((code, [id(x) if hasattr(x, "shape") else x for x in cells]))
        for code, cells in found:
            often = found.count((code, cells))
            if often > 1:
                place = Place(code.co_filename, code.co_firstlineno, code.co_qualname)
                self.piled[place] = max(often, self.piled.get(place, 0))
