"""The last steps of a loop: their mean, and how fast they are taken."""

from __future__ import annotations

import time
from typing import final


@final
class Mean:
    """The mean of about the last fifty numbers."""

    def __init__(self) -> None:
        self.value = 0.0
        self._weight = 0.0

    def add(self, x: float) -> None:
        """One more number."""
        self._weight = 0.98 * self._weight + 1
        self.value += (x - self.value) / self._weight


@final
class Rate:
    """How many steps a second are taken."""

    def __init__(self) -> None:
        self.steps = 0
        self._start = time.perf_counter()
        self._end = 0.0

    def stop(self) -> None:
        """No step follows: the time after it does not count."""
        self._end = time.perf_counter()

    @property
    def value(self) -> float:
        """Steps a second."""
        return self.steps / max((self._end or time.perf_counter()) - self._start, 1e-9)
