"""How long after a signal does compiled code that goes on for long end, and what do its looks cost?

The latency is that from sending SIGINT to KeyboardInterrupt, the largest of twenty at random times.
Beside it the aim. The cost is a loop's time with looks as they are, beside one with a thousandth of
them.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from bench.pairs import Row, pair, row, show
from chainrule.compile.llvm import while_loops

TIMES = 20
SEED = 5


def loop(most: float = 0) -> Callable[[], Any]:
    """A loop of short turns: endless, or of so many."""
    f = cr.jit(
        lambda x, n: cr.while_loop(
            lambda s: (s[1] < n) | (n < 1), lambda s: (s[0] * 0.999 + 0.1, s[1] + 1), (x, 0 * n)
        )
    )
    x, n = cr.tensor(1.0), cr.tensor(most)
    f(x, cr.tensor(1.0))
    return lambda: f(x, n)


def elementwise() -> Callable[[], Any]:
    """A kernel over an array of a hundred megabytes."""
    x = np.full(12_000_000, 0.5)
    f = cr.jit(lambda x: cr.sum(cr.sin(cr.exp(cr.tanh(x))) * cr.lgamma(x)))
    f(x)
    return lambda: f(x)


def product() -> Callable[[], Any]:
    """A matrix product."""
    x = np.ones((4000, 4000), np.float32)
    f = cr.jit(lambda x: x @ x)
    f(x)
    return lambda: f(x)


CASES = {"while_loop": loop, "map of 12e6 numbers": elementwise, "product, 4000": product}


def latency(f: Callable[[], Any]) -> float:
    """The longest time from a signal to KeyboardInterrupt."""
    rng, worst = random.Random(SEED), 0.0
    for _ in range(TIMES):
        sent: list[float] = []

        def send(sent: list[float] = sent) -> None:
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(rng.uniform(0.02, 0.15), send)
        timer.start()
        try:
            while True:
                f()
        except KeyboardInterrupt:
            worst = max(worst, time.perf_counter() - sent[0])
        timer.join()
    return worst


def run() -> list[Row]:
    rows = [
        Row(f"SIGINT to KeyboardInterrupt: {name}", show(latency(make())), "", "", "≤ 100 ms")
        for name, make in CASES.items()
    ]
    os.environ["CHAINRULE_CACHE_DIR"] = ""
    often = loop(1e6)
    step, while_loops.STEP = while_loops.STEP, 1e9
    most, while_loops.MOST = while_loops.MOST, 1000 * while_loops.MOST
    seldom = loop(1e6)
    while_loops.STEP, while_loops.MOST = step, most
    ours, peer = pair(often, seldom)
    return [
        *rows,
        row("while_loop of 1e6 short turns: as it is / seldom looking", ours, peer, "≤ 1.01"),
    ]
