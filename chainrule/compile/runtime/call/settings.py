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
        records = [n.words() for n in numbers]
        self.are_seen = None not in records
        head = len(numbers), int(not self.are_seen), id(float), id(np.float64)
        self.words = np.array([*head, *chain(*filter(None, records))], np.int64)
        """What machine code reads of them, as `cpu/call_settings.py` says."""

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
