"""What many calls of one program are given."""

from __future__ import annotations

from typing import Any, final

import numpy as np


@final
class Turns:
    """The arguments of many calls, in lists that grow with each of them.

    `arrays` are those that a call is given, `count` for each; `sizes` the values of its dynamic
    axes; `numbers` the settings that it reads, `settings_of` for each.
    """

    def __init__(self, count: int, settings_of: int) -> None:
        self._count, self._settings_of = count, settings_of
        self.arrays: list[Any] = []
        self.sizes: list[tuple[int, ...]] = []
        self.numbers: list[float] = []

    def addresses(self) -> list[Any]:
        """For each argument its arrays' addresses, int64, one for each call."""
        words = np.fromiter(map(id, self.arrays), np.int64, len(self.arrays))
        return list(words.reshape(len(self.sizes), self._count).T)

    def settings(self) -> list[Any]:
        """For each setting its values, float64, one for each call."""
        values = np.array(self.numbers, np.float64)
        return list(np.ascontiguousarray(values.reshape(len(self.sizes), self._settings_of).T))
