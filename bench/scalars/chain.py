"""Does a chain of a million ops work, in time linear in its length, and what does a node weigh?

Tensor without axes (float64) and `Value`, forward and backward; memory as the process's growth
while the graph stands.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr
from bench.pairs import Row, show

LENGTH = 1_000_000


def tensor_chain(length: int) -> tuple[Any, Any]:
    x = cr.tensor(1.0, dtype="float64", requires_grad=True)
    y = x
    for _ in range(length):
        y = y.tanh()
    return x, y


def value_chain(length: int) -> tuple[Any, Any]:
    x = cr.Value(1.0)
    y = x
    for _ in range(length):
        y = y.tanh()
    return x, y


def resident() -> int:
    """Bytes of memory that this process holds now."""
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * resource.getpagesize()


def measure(what: str, build: Callable[[int], tuple[Any, Any]]) -> Row:
    per_op: list[float] = []
    for length in (LENGTH // 10, LENGTH):
        gc.collect()
        before = resident()
        start = time.perf_counter()
        x, y = build(length)
        weight = (resident() - before) / length
        y.backward()
        assert x.grad is not None
        del y
        per_op.append((time.perf_counter() - start) / length)
        del x
    small, large = per_op
    return Row(
        f"{what}: chain of {LENGTH:,} ops, forward + backward + freeing, per op",
        f"{show(large)}, {weight:.0f} bytes a node",
        f"{show(small)} at {LENGTH // 10:,}",
        f"{large / small:.2f}",
        "linear (about 1)",
    )


def run() -> list[Row]:
    return [measure("Tensor", tensor_chain), measure("Value", value_chain)]
