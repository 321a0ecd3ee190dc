"""Axes that are named by letters: which size each letter stands for, and arrays with one axis for
each. A first N is all leading axes together; axes of one letter have one size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Shapes = tuple[tuple[int, ...], ...]


def sizes_of_letters(
    letters: Sequence[str], shapes: Sequence[tuple[int, ...]]
) -> dict[str, tuple[int, ...]] | None:
    """The size that each letter stands for (sizes, for N), None if they do not agree."""
    found: dict[str, tuple[int, ...]] = {}
    for names, shape in zip(letters, shapes, strict=True):
        rest = names.removeprefix("N")
        lead = len(shape) - len(rest)
        if lead < 0 or (lead and rest == names):
            return None
        parts = [(n, (s,)) for n, s in zip(rest, shape[lead:], strict=True)]
        for name, size in [*parts, *([("N", shape[:lead])] if rest != names else [])]:
            if found.setdefault(name, size) != size:
                return None
    return found


def flat_shape(shape: tuple[int, ...], letters: str) -> tuple[int, ...]:
    """The shape of the same elements with one axis for each letter."""
    rest = len(letters.removeprefix("N"))
    lead = shape[: len(shape) - rest]
    return (*[math.prod(lead)] * (len(letters) - rest), *shape[len(shape) - rest :])
