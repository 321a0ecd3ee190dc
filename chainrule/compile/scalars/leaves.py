"""The numbers and gradients of many Values at once."""

# What Value keeps to itself is looked at where it lies.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from chainrule.compile.scalars.slots import code, value_slots
from chainrule.engine.op import Array
from chainrule.scalar import Value


@final
class Leaves:
    """Values without operands, which it keeps."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.values = tuple(values)
        self.data, self.gradients = value_slots(values)
        self._code = code()

    def read(self, out: Array) -> None:
        """Write what is in their `data` into `out`."""
        n, done = len(self.values), 0
        if self._code is not None:
            done = self._code.read(self.data.ctypes.data, n, out.ctypes.data)
        if done < n:
            out[done:] = [v.data for v in self.values[done:]]

    def add(self, slopes: Array, g: float) -> None:
        """Add g times a slope to the gradient of each."""
        n, done = len(self.values), 0
        if self._code is not None:
            done = self._code.add(self.gradients.ctypes.data, n, slopes.ctypes.data, g)
        if done < n:
            for v, d in zip(self.values[done:], slopes[done:].tolist(), strict=True):
                v._g += g * d
