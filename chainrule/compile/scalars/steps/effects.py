"""What a step writes: numbers that its update computed, and objects that are always the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from chainrule.engine.op import Array

Places = NDArray[np.int64]
NO_PLACES: Places = np.zeros(0, np.int64)
Outputs = Callable[[int, int], Array]
"""The outputs of an update from a number to another one."""


@final
@dataclass(frozen=True, slots=True)
class Write:
    """Outputs from `start` to `stop`, which go to the numbers of a kind: `among` these places, or
    to all where it is None."""

    kind: Any
    among: Places | None
    start: int
    stop: int


@final
@dataclass(frozen=True, slots=True)
class Fill:
    """One object that goes there."""

    kind: Any
    among: Places | None
    thing: Any


@final
@dataclass(frozen=True, eq=False, slots=True)
class Effects:
    """All that a step writes; no place twice."""

    writes: Sequence[Write]
    fills: Sequence[Fill]

    @property
    def key(self) -> Any:
        """Equal for each that are."""
        writes = [(w.kind, _bytes(w.among), w.start, w.stop) for w in self.writes]
        fills = [(f.kind, _bytes(f.among), repr(f.thing)) for f in self.fills]
        return tuple(writes), tuple(fills)


def _bytes(among: Places | None) -> bytes | None:
    return None if among is None else among.tobytes()


def index(among: Places | None) -> Any:
    """The places as an index."""
    return slice(None) if among is None else among
