"""Lines that make graphs: which of their graphs are held, and how these grow."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chainrule.verify.place import Place


class Bead:
    """Hangs on a node, and does nothing when gradients come by."""

    def __call__(self, *_: Any) -> None:
        """Change nothing about the gradient."""
        return


@dataclass(eq=False)
class GraphLine:
    """One line that makes graphs: calls a model, or starts a backward pass."""

    what: str
    place: Place | None
    beads: dict[int, list[weakref.ref[Any]]] = field(
        default_factory=dict[int, list[weakref.ref[Any]]]
    )
    """By the number of the step in which they were made."""
    alive: tuple[int, ...] = ()
    """Steps whose graphs were all held at once."""
    holder: tuple[str, Place | None] | None = None
    inner: bool = False
    """Whether it is a layer's, whose graph others may hold as well: only a container counts."""
    newest: int = 0
    old: list[int] = field(default_factory=list[int])
    """Nodes older than the last step, backward pass by backward pass."""
    sizes: list[int] = field(default_factory=list[int])
    error: str = ""

    @property
    def name(self) -> str:
        """What holds them; empty if that was not found."""
        return self.holder[0] if self.holder is not None else ""

    @property
    def filled_at(self) -> Place | None:
        """The line that puts them there."""
        return self.holder[1] if self.holder is not None else None


def held_steps(line: GraphLine) -> tuple[int, ...]:
    """Three last steps in a row of which everything is still held; empty if something is gone."""
    steps = tuple(sorted(line.beads)[-3:])
    return steps if len(steps) == 3 and is_alive(line, steps) else ()


def is_alive(line: GraphLine, steps: Sequence[int]) -> bool:
    """Whether something of each of these steps is held."""
    return all(any(ref() is not None for ref in line.beads[step]) for step in steps)


def is_growing(line: GraphLine) -> bool:
    """Whether the part of its graph that is older than a step grew in the last passes."""
    last = line.old[-3:]
    return len(line.old) >= 3 and 0 < last[1] < last[2] and last[0] < last[1]
