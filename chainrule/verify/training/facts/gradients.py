"""What the gradient of one leaf holds: backward passes, and how it looked when it was used."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chainrule.verify.place import Place


@dataclass(eq=False)
class Pass:
    """A backward pass. It holds nothing of the graph."""

    serial: int
    place: Place | None
    touched: frozenset[int]
    """Ids of parameters whose gradients it made or changed."""
    nodes: frozenset[int] = frozenset()
    """Numbers of the nodes that it began at, if their graph was retained and these made one value
    each."""
    used_by: set[int] = field(default_factory=set[int])
    """Ids of the optimizers that have stepped with what it made."""
    onto: set[int] = field(default_factory=set[int])
    """Ids of those of them that had been used, and not reset since then."""
    left: set[int] = field(default_factory=set[int])
    """Ids of the parameters whose gradients still hold it."""
    reset_at: Place | None = None
    """Where the last of these was reset."""


class Used(NamedTuple):
    """A gradient that a step has used: how it looked then."""

    token: tuple[int, ...]
    norm: float


@dataclass(eq=False)
class Gradient:
    """What the gradient of one leaf holds."""

    leaf: weakref.ref[Any]
    passes: list[Pass] = field(default_factory=list[Pass])
    used: Used | None = None
    """As it was used last, if nothing has changed it since."""
    mixed: float = 0.0
    """Norm of what was used before, if a pass has added to that."""
    token: tuple[int, ...] | None = None
    """How it looked after the last pass that reached it."""
    last: Used | None = None
    """As that has left it, of a leaf that no optimizer has."""
    value: float = math.nan
    """Norm of that leaf then."""

    def reset(self, at: Place | None = None) -> None:
        """It holds nothing any more."""
        key = id(self.leaf())
        for one in self.passes:
            one.left.discard(key)
            one.reset_at = at
        self.passes, self.used, self.mixed = [], None, 0.0
