"""What made the gradients bad of steps that a scaler has left out: an op, if it is the same one in
each of them, and the scale is not the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chainrule.verify.place import Place

_PLAIN = 2.0**24
"""Up to here no scale makes gradients in float32 infinite that were not large."""


@dataclass(frozen=True)
class Blame:
    """An op at a line, and what it made of what."""

    op: str
    place: Place
    phase: str
    made: str


def steady(blames: Sequence[Blame | None], steps: int, scale: float) -> Blame | None:
    """The op that is to blame for each of the last steps; None if there is no such one, or if the
    scale is so large that it may be."""
    last = blames[-steps:]
    known = {(b.op, b.place, b.phase) for b in last if b is not None}
    same = len(last) == steps and None not in last and len(known) == 1
    return last[-1] if same and scale <= _PLAIN else None
