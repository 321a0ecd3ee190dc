"""Whether an object that is assigned to is held by nothing, so that the assignment would be lost.

`x.data[0] = 1` assigns to what `x.data` returned, which dies with the statement. CPython counts the
references of an object: one fewer than for a variable of a function. Whether that can be told is
measured once; from Python 3.14 on it cannot, and then nothing is said.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any


class _Probe:
    """Notes how many references it has while it is assigned to."""

    count = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        _Probe.count = getrefcount(self)

    def assign(self, /, *values: Any, **words: Any) -> None:
        _Probe.count = getrefcount(self)


def references_of_unheld() -> int:
    """How many references an object has at most if nothing holds it; 0 if that cannot be told."""
    _Probe()[0] = None
    unheld = _Probe.count
    held = _Probe()
    held[0] = None
    return unheld if unheld < _Probe.count else 0


def references_of_unheld_object() -> int:
    """The same of an object whose method assigns to it: `x.data.add_(1)`."""
    _Probe().assign()
    unheld = _Probe.count
    held = _Probe()
    held.assign()
    return unheld if unheld < _Probe.count else 0
