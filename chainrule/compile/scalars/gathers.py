"""What a tape chooses by ints: instructions whose operand is another one in each call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Chosen = NDArray[np.int64]
"""The indices of a call's gathers: which of the entries each takes."""
NONE: Chosen = np.zeros(0, np.int64)


def as_chosen(found: Sequence[int] | None) -> Chosen | None:
    """What was found of ints as an array; None if there is none, or one is larger than any
    index."""
    try:
        return None if found is None else np.array(found, np.int64)
    except OverflowError:
        return None


@final
class Choice:
    """Where what is chosen lies: of each gather the number of its index, and an address for each
    entry that it can choose."""

    def __init__(self, index: Chosen, addresses: Sequence[NDArray[Any]]) -> None:
        self.index = index
        self.counts = np.array([len(a) for a in addresses], np.int64)
        self.starts = np.cumsum(self.counts) - self.counts
        self.flat: NDArray[Any] = np.concatenate([np.zeros(0, np.int32), *addresses])

    def addresses(self, chosen: Chosen) -> NDArray[Any]:
        """Those of what these indices choose."""
        return self.flat[self.starts + chosen[self.index]]


@final
class Gathers:
    """By gather: the instruction of `lines`, and of `calls` the subscript of the program that it
    belongs to; `entries` are the places of all that it can choose."""

    def __init__(
        self, lines: Chosen, entries: Sequence[NDArray[Any]], index: Chosen, calls: Chosen
    ) -> None:
        self.lines = lines
        self.entries = entries
        self.calls = calls
        self.choice = Choice(index, entries)

    def other(self, chosen: Chosen) -> Chosen:
        """Other indices, within the bounds of all gathers."""
        least = np.full(len(chosen), np.iinfo(np.int64).max)
        np.minimum.at(least, self.choice.index, self.choice.counts)
        return (chosen * 5 + 3 + np.arange(len(chosen))) % least
