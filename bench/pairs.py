"""Time two programs in turn, block by block, and compare the medians.

On a shared machine the speed drifts, so each block of A is followed at once by a block of B. A
block is a few runs, of which the first is not counted: programs that alternate run by run would
measure the processor's caches after each other, which no user does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the results: a question, what was measured, what the aim is."""

    what: str
    ours: str
    peer: str
    ratio: str
    aim: str


def seconds(f: Callable[[], Any]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def pair(
    ours: Callable[[], Any], peer: Callable[[], Any], *, blocks: int = 15, runs: int = 20
) -> tuple[float, float]:
    """Median seconds of one call of each, from `blocks` blocks of `runs` counted calls each."""
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(blocks):
        for f, times in ((ours, mine), (peer, theirs)):
            f()
            times.extend([seconds(f) for _ in range(runs)])
    return statistics.median(mine), statistics.median(theirs)


def show(seconds: float) -> str:
    """A duration in its natural unit.

    >>> show(0.00031)
    '310 µs'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def row(what: str, ours: float, peer: float, aim: str, *, per: float = 1) -> Row:
    """A row for two durations, each divided by `per` (the number of ops in one call, say)."""
    return Row(what, show(ours / per), show(peer / per), f"{ours / peer:.2f}", aim)
