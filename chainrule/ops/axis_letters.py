"""Axes that are named by letters: which size each letter stands for, and arrays with one axis for
each. A first N is all leading axes together, a last L all trailing ones; axes of one letter have
one size. A digit is an axis of that size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]


def sizes_of_letters(letters: Sequence[str], shapes: Sequence[Shape]) -> dict[str, Shape] | None:
    """The size that each letter stands for (sizes, for N and L), None if they do not agree."""
    found: dict[str, Shape] = {}
    for names, shape in zip(letters, shapes, strict=True):
        parts = _parts(names, shape)
        if parts is None:
            return None
        for name, size in zip(names, parts, strict=True):
            known = (int(name),) if name.isdigit() else found.setdefault(name, size)
            if known != size:
                return None
    return found


def _parts(letters: str, shape: Shape) -> list[Shape] | None:
    """The sizes that each letter takes of a shape, None if it has too few or too many."""
    group = 0 if letters.startswith("N") else len(letters) - 1 if letters.endswith("L") else None
    more = len(shape) - len(letters)
    if more < (-1 if group is not None else 0) or (more and group is None):
        return None
    parts: list[Shape] = []
    at = 0
    for i in range(len(letters)):
        end = at + 1 + (more if i == group else 0)
        parts.append(shape[at:end])
        at = end
    return parts


def shape_of(letters: str, sizes: Mapping[str, Shape]) -> Shape:
    """The shape that letters stand for."""
    return sum([(int(n),) if n.isdigit() else sizes[n] for n in letters], ())


def flat_shape(shape: Shape, letters: str) -> Shape:
    """The shape of the same elements with one axis for each letter."""
    parts = _parts(letters, shape)
    assert parts is not None, f"{shape} is no shape for {letters}"
    return tuple([math.prod(part) for part in parts])
