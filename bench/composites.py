"""What do composites gain in eager mode where they run as kernels, beside op by op and PyTorch?

Forward and backward on float32, one thread each.
Attention has 8 heads of 64 channels and as many positions as give about that many elements.
And what the first use of one costs: whole processes, with an empty cache and with a full one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as tf

import chainrule as cr
from bench.pairs import Row, pair, row, show
from chainrule.nn import functional as crf

CLASSES = 512
SIZES = (1 << 10, 1 << 12, 1 << 14, 1 << 17, 1 << 20, 1 << 23)
"""Elements."""

FIRST = """
import time, numpy as np, chainrule as cr, contextlib
x = cr.tensor(np.ones((512, 512), np.float32), requires_grad=True)
g = np.ones(x.shape, x.dtype)
begin = time.perf_counter()
cr.layer_norm(x).backward(g)
print(time.perf_counter() - begin)
"""

Step = Callable[[], Any]
HEADS, WIDTH = 8, 64
LONGEST = 1024
"""Positions: the scores of more fill the memory of a small machine."""


def steps(elements: int) -> dict[str, tuple[Step, Step]]:
    """By name a forward and backward pass of ours, and PyTorch's."""
    rng = np.random.default_rng(0)
    n = elements // CLASSES
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((n, CLASSES), CLASSES, CLASSES)]
    ours = [cr.tensor(a, requires_grad=True) for a in arrays]
    peers = [torch.tensor(a, requires_grad=True) for a in arrays]
    target = rng.integers(0, CLASSES, n)
    cotangent = rng.normal(size=(n, CLASSES)).astype(np.float32)
    one = np.ones((), np.float32)

    def step(f: Callable[..., Any], xs: list[Any], g: Any) -> Step:
        def run() -> None:
            f(*xs).backward(g)
            for x in xs:
                x.grad = None

        return run

    def both(f: Any, peer: Any, count: int = 1, g: Any = cotangent) -> tuple[Step, Step]:
        return step(f, ours[:count], g), step(peer, peers[:count], torch.tensor(g))

    labels = torch.tensor(target)
    return {
        "softmax": both(cr.softmax, lambda x: torch.softmax(x, -1)),
        "log_softmax": both(cr.log_softmax, lambda x: torch.log_softmax(x, -1)),
        "layer_norm": both(
            cr.layer_norm, lambda x, w, b: tf.layer_norm(x, (CLASSES,), w, b), count=3
        ),
        "rms_norm": both(cr.rms_norm, lambda x, w: tf.rms_norm(x, (CLASSES,), w, 1e-5), count=2),
        "gelu": both(cr.gelu, tf.gelu),
        "gelu, tanh form": both(
            lambda x: cr.gelu(x, approximate="tanh"), lambda x: tf.gelu(x, approximate="tanh")
        ),
        "silu": both(cr.silu, tf.silu),
        "elu": both(crf.elu, tf.elu),
        "cross_entropy": both(
            lambda x: cr.cross_entropy(x, target), lambda x: tf.cross_entropy(x, labels), g=one
        ),
    }


def attention(elements: int) -> tuple[Step, Step]:
    """Causal attention, ours and PyTorch's, forward and backward."""
    positions = min(max(2, elements // (HEADS * WIDTH)), LONGEST)
    rng = np.random.default_rng(0)
    shape = (HEADS, positions, WIDTH)
    q, k, v, g = [rng.normal(size=shape).astype(np.float32) for _ in range(4)]
    ours = [cr.tensor(a, requires_grad=True) for a in (q, k, v)]
    peers = [torch.tensor(a, requires_grad=True) for a in (q, k, v)]
    cotangent = torch.tensor(g)

    def mine() -> None:
        cr.scaled_dot_product_attention(*ours, causal=True).backward(g)
        for x in ours:
            x.grad = None

    def theirs() -> None:
        tf.scaled_dot_product_attention(*peers, is_causal=True).backward(cotangent)
        for x in peers:
            x.grad = None

    return mine, theirs


def _first(cache: str, *, plain: bool) -> float:
    """Seconds that the first layer_norm of a process takes."""
    environment = {
        **os.environ,
        "CHAINRULE_CACHE_DIR": cache,
        "CHAINRULE_OP_BY_OP": str(int(plain)),
    }
    run = subprocess.run(
        [sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def first_uses() -> list[Row]:
    """Of a process: with nothing compiled, with all compiled by an earlier one, op by op."""
    empty: list[float] = []
    full: list[float] = []
    plain: list[float] = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as cache:
            empty.append(_first(cache, plain=False))
            full.append(_first(cache, plain=False))
            plain.append(_first(cache, plain=True))
    peer = statistics.median(plain)
    return [
        row(f"first use in a process, {name} cache / op by op", statistics.median(times), peer, aim)
        for name, times, aim in (("empty", empty, "≤ 250 ms"), ("full", full, "≤ 40 ms"))
    ]


def run() -> list[Row]:
    """Rows by size and composite: op by op, and PyTorch in brackets."""
    torch.set_num_threads(1)
    cr.set_num_threads(1)
    rows: list[Row] = []
    for elements in SIZES:
        runs = max(1, (1 << 20) // elements)
        all_steps = {**steps(elements), "attention": attention(elements)}
        for name, (ours, peer) in all_steps.items():

            def plain(ours: Step = ours) -> None:
                with cr.op_by_op():
                    ours()

            ours()  # compiles
            mine, parts = pair(ours, plain, blocks=5, runs=min(runs, 10))
            again, theirs = pair(ours, peer, blocks=5, runs=min(runs, 10))
            what = f"{name}, {elements:,} elements / op by op (PyTorch)"
            both = f"{show(parts)} ({show(theirs)})"
            ratio = f"{mine / parts:.2f} ({again / theirs:.2f})"
            rows.append(Row(what, show(mine), both, ratio, "≤ 1.00"))
    return rows + first_uses()
