"""How fast is conv2d, forward and backward, beside PyTorch? float32, one thread each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import chainrule as cr
from bench.pairs import Row, pair, row
from chainrule.ops.windows.convolution import conv2d

SHAPES = [
    ((8, 1, 28, 28), (8, 1, 3, 3)),
    ((32, 16, 28, 28), (32, 16, 3, 3)),
    ((32, 64, 32, 32), (64, 64, 3, 3)),
]
"""Of x and of the weight."""


def step(conv: Callable[..., Any], x: Any, w: Any) -> None:
    conv(x, w, padding=1).sum().backward()
    x.grad = w.grad = None


def run() -> list[Row]:
    torch.set_num_threads(1)
    cr.set_num_threads(1)
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for shapes in SHAPES:
        arrays = [rng.standard_normal(s, dtype=np.float32) for s in shapes]
        xs = [cr.tensor(a, requires_grad=True) for a in arrays]
        ts = [torch.tensor(a, requires_grad=True) for a in arrays]
        runs = 20 if arrays[0].size < 1e5 else 1
        size = "x".join(map(str, shapes[0]))
        for what, ours, peer in (
            (
                "forward",
                lambda xs=xs: conv2d(*xs, padding=1),
                lambda ts=ts: torch.nn.functional.conv2d(*ts, padding=1),
            ),
            (
                "forward + backward",
                lambda xs=xs: step(conv2d, *xs),
                lambda ts=ts: step(torch.nn.functional.conv2d, *ts),
            ),
        ):
            mine, theirs = pair(ours, peer, blocks=5, runs=runs)
            rows.append(row(f"conv2d {size}, 3x3, {what}", mine, theirs, "≤ 1.00"))
    return rows


if __name__ == "__main__":
    for line in run():
        print(line.what, line.ours, line.peer, line.ratio, sep=" | ")
