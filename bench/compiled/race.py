"""Time several programs in turn, block by block, and compare the medians.

As `bench.pairs`, for more than two: on a shared machine the speed drifts, so the programs take
turns, and only times from one run are compared. The first call of each block is not counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.compiled import ours
from bench.pairs import Row, seconds, show


@dataclass(frozen=True)
class Runner:
    """A program: `run()` does the work once, and waits for it. `before()` is not timed."""

    name: str
    run: Callable[[], Any]
    before: Callable[[], Any] = lambda: None
    note: str = ""
    runs: int | None = None
    """Counted calls a block, if not those of the race."""


def race(runners: Sequence[Runner], *, blocks: int, runs: int) -> dict[str, float]:
    """Median seconds of one call of each, from `blocks` blocks of `runs` counted calls each."""
    times: dict[str, list[float]] = {r.name: [] for r in runners}
    for _ in range(blocks):
        for r in runners:
            for i in range((r.runs or runs) + 1):
                r.before()
                took = seconds(r.run)
                if i:
                    times[r.name].append(took)
    return {name: statistics.median(t) for name, t in times.items()}


def table(
    what: str,
    runners: Sequence[Runner],
    times: dict[str, float],
    aim: str,
    *,
    per: float = 1,
    name: str = ours.NAME,
) -> list[Row]:
    """A row for each peer of `name`: our time, its time, ours / its; times divided by `per`."""
    mine = times[name]
    return [
        Row(
            f"{what}: {name} / {r.name}{r.note and f' ({r.note})'}",
            show(mine / per), show(times[r.name] / per), f"{mine / times[r.name]:.2f}", aim,
        )
        for r in runners
        if not r.name.startswith(ours.NAME)
    ]  # fmt: skip


def same_losses(runners: Sequence[Runner], *, steps: int, tolerance: float) -> None:
    """All programs give the losses of the first, step by step, or the benchmark ends."""
    losses = [[float(r.run()) for _ in range(steps)] for r in runners]
    for r, mine in zip(runners, losses, strict=True):
        off = max([abs(a - b) for a, b in zip(mine, losses[0], strict=True)])
        if not off <= tolerance:
            raise AssertionError(f"{r.name}: losses {mine}, but {runners[0].name}: {losses[0]}")


def compiling(f: Callable[[], Any]) -> str:
    """How long the first block takes, in words for a note."""
    return f"first block {show(seconds(f))}, compilation included"
