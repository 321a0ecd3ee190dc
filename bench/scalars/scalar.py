"""How fast is `Value` against classes built like micrograd's and microgpt's?

Each program runs on `Value` and on a peer (`scalar_peers`) in turns, in one process, with the
garbage collector as it comes; the figure is the median over the turns of our time over the peer's.
A turn is a few steps, so that the garbage that an engine makes is collected in its own time; what
is left over from the other's turn is collected before the clock starts.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable

from bench.pairs import Row, show
from bench.scalars.scalar_peers import Closures, GPTStep, MLPStep, Tuples, small
from chainrule.scalar import Value

Step = Callable[[], object]


def block(step: Step, times: int) -> float:
    """Seconds of processor time a step takes, over `times` steps."""
    gc.collect()
    start = time.process_time()
    for _ in range(times):
        step()
    return (time.process_time() - start) / times


def pair(ours: Step, theirs: Step, times: int, turns: int = 9) -> tuple[float, float, float]:
    """Median seconds of either, and the median of ours / theirs."""
    block(ours, 8), block(theirs, 1)  # the interpreter specialises code as it runs
    both = [(block(ours, times), block(theirs, times)) for _ in range(turns)]
    ratio = statistics.median(a / b for a, b in both)
    return statistics.median(a for a, _ in both), statistics.median(b for _, b in both), ratio


def chain(length: int) -> tuple[float, float]:
    """Seconds to build and to differentiate a chain of `length` multiplications."""
    x = Value(1.0)
    start = time.process_time()
    y = x
    for _ in range(length):
        y = y * 1.0
    built = time.process_time()
    y.backward()
    done = time.process_time()
    return built - start, done - built


def run() -> list[Row]:
    """A row for each program and peer, then the cost of a node in long chains."""
    sys.setrecursionlimit(1_000_000)  # the peers sort recursively
    rows: list[Row] = []
    for peer in (Tuples, Closures):
        cases = {
            "GPT step": (GPTStep(Value), GPTStep(peer), 6, "≤ 0.33"),
            "MLP step": (MLPStep(Value), MLPStep(peer), 3, "≤ 0.33"),
            "ten nodes": (lambda: small(Value), lambda peer=peer: small(peer), 2000, "≤ 1"),
        }
        for what, (ours, theirs, times, aim) in cases.items():
            a, b, ratio = pair(ours, theirs, times)
            what = f"`Value` against {peer.__name__}: {what}"
            rows.append(Row(what, show(a), show(b), f"{ratio:.2f}", aim))
    for length in (100_000, 1_000_000):
        build, sweep = (show(t / length) for t in chain(length))
        what = f"`Value`: a node of a chain of {length:,}"
        rows.append(Row(what, f"{build} forward, {sweep} backward", "", "", "linear"))
    return rows


if __name__ == "__main__":
    for row in run():
        print(f"{row.what:46} {row.ours:34} {row.peer:10} {row.ratio:6} {row.aim}")
