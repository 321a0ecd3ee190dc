"""What the user calls the numbers of a function of `Value`s: containers by the names that lead to
them, with the shape that their indices have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from chainrule.compile.export.call_data import names_from_function
from chainrule.compile.export.loop_program import Part
from chainrule.compile.scalars.reroll.containers import Stand

_AROUND = ("function", "self", "argument")
"""Names on the way that say nothing."""


def parts_of(stands: Sequence[Stand], ending: str, about: str) -> tuple[Part, ...]:
    """The containers that numbers stand in, which lie one after the other; names have an ending,
    `.grad` say."""
    out: list[Part] = []
    start = 0
    for names, group in groupby(stands, key=lambda s: s[0]):
        at = [place for _, place in group]
        out.append(Part(_path(names) + ending, about, start, _shape(at)))
        start += len(at)
    return tuple(out)


def _path(names: Sequence[Any]) -> str:
    words = [str(n) for n in names[:-1] if n]
    while words and words[0] in _AROUND:
        words = words[1:]
    return ".".join(words) or "value"


def _shape(at: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The sides of the box that indices fill, in order; in one row where they fill none."""
    if at == [()]:
        return ()
    box = np.array(at)
    low = box.min(axis=0)
    sides = tuple((box.max(axis=0) - low + 1).tolist())
    wanted = (
        np.stack(np.unravel_index(np.arange(len(at)), sides), axis=1)
        if (np.prod(sides) == len(at))
        else None
    )
    even = wanted is not None and np.array_equal(box - low, wanted)
    return tuple(n for n in sides if n != 1) or (len(at),) if even else (len(at),)


def list_names(roots: Sequence[Any], lists: Sequence[Any]) -> list[str]:
    """What lists of numbers are called, which a function, the first root, or an object that it is
    given leads to."""
    found: dict[int, str] = {}
    for root in reversed(roots):
        found |= names_from_function(root, lists)
    return [found.get(id(x), f"list{i}") for i, x in enumerate(lists)]
