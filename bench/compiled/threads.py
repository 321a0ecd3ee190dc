"""What do two threads give compiled programs, beside one?

The same compiled program with one and with two threads, block by block in turn; and what it costs
to hand nothing at all to the pool, when its thread still looks out for work and when it sleeps.
Kernels on float32; layer_norm and softmax on rows of 256; a training step of the GPT of `gpt`.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from bench.compiled import gpt
from bench.pairs import Row, row, seconds, show
from chainrule.compile.cpu.symbols import PARALLEL
from chainrule.compile.runtime import linking, threads

WIDTH = 256
SIZES = (10**5, 10**6, 10**7)


def with_threads(n: int, f: Callable[[], Any]) -> list[float]:
    """Calls with `n` threads for a tenth of a second; the first starts them and is not counted."""
    threads.set_num_threads(n)
    f()
    times = [seconds(f)]
    while sum(times) < 0.1:
        times.append(seconds(f))
    return times


def beside(what: str, f: Callable[[], Any], blocks: int) -> Row:
    """Two threads beside one: medians, and the ratio."""
    one: list[float] = []
    two: list[float] = []
    for _ in range(blocks):
        two += with_threads(2, f)
        one += with_threads(1, f)
    return row(what, statistics.median(two), statistics.median(one), "≤ 0.6")


def kernels() -> list[Row]:
    rng = np.random.default_rng(0)
    scale = cr.asarray(rng.standard_normal(WIDTH, dtype=np.float32))
    cases: dict[str, Callable[[Any], Any]] = {
        "a + a * a": lambda x: x + x * x,
        "gelu": cr.gelu,
        "layer_norm": lambda x: cr.layer_norm(x, scale),
        "softmax": lambda x: cr.softmax(x, axis=-1),
    }
    found: list[Row] = []
    for name, f in cases.items():
        for size in SIZES:
            x = cr.asarray(rng.standard_normal((size // 4 // WIDTH, WIDTH), dtype=np.float32))
            call = cr.jit(f)
            found.append(beside(f"{name}, {size:.0e} bytes", lambda c=call, x=x: c(x), 5))
    return found


def waking() -> list[Row]:
    """Seconds that the caller spends on a job with nothing to do."""
    threads.set_num_threads(2)
    threads.the_pool().run()
    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    nothing = ctypes.cast(ctypes.CDLL(None).getpid, task)
    call = ctypes.CFUNCTYPE(None, task, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    parallel = call(linking.address_of(PARALLEL))
    job = lambda: parallel(nothing, None, 2, 1)
    alone = lambda: parallel(nothing, None, 1, 1)

    def after(pause: float, f: Callable[[], Any]) -> float:
        times: list[float] = []
        for _ in range(300):
            time.sleep(pause) if pause else None
            times.append(seconds(f))
        return statistics.median(times)

    awake, asleep = after(0, job) - after(0, alone), after(2e-3, job) - after(2e-3, alone)
    return [
        Row("a job, the worker looks out", show(max(awake, 0)), "", "", "≤ 5 µs"),
        Row("a job, the worker sleeps", show(max(asleep, 0)), "", "", "≤ 5 µs"),
    ]


def run() -> list[Row]:
    step = gpt.by_chainrule(*gpt.small())
    return [*waking(), *kernels(), beside("GPT 10.8 M, a step", step, 4)]
