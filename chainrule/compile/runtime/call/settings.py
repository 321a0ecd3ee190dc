"""Settings of optimizers that calls read: taken over, and of many calls as columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import final

import numpy as np

from chainrule.compile.trace.state_inputs import HeldNumber


@final
class Settings:
    """The settings that calls read, `numbers`."""

    def __init__(self, numbers: Sequence[HeldNumber]) -> None:
        self.numbers = list(numbers)
        self._checks = list(dict.fromkeys([n.check for n in numbers]))
        # those that the function asked for their truth, by their place, must have it still
        self.truths = [(i, n.truth) for i, n in enumerate(numbers) if n.truth is not None]
        records = [n.words() for n in numbers]
        head = len(numbers), int(None in records), id(float)
        self.words = np.array([*head, *chain(*filter(None, records))], np.int64)
        """What machine code reads of them, as `cpu/call_settings.py` says."""

    def read(self) -> list[float]:
        """What they are now."""
        return [n.read() for n in self.numbers]

    def take_over(self) -> bool:
        """Whether the numbers fit; those that are others than before are taken over."""
        for n in self.numbers:
            value = n.read()
            if value is not n.last and not n.fits(value):
                return False
        return True

    def check(self) -> None:
        """Raise what the optimizer raises for settings as they are now."""
        for check in self._checks:
            check()
