"""How much does an op cost in eager mode, forward and backward, beside PyTorch?

A chain of mixed elementwise ops on (8, 8) float32, one thread each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import chainrule as cr
from bench.pairs import Row, pair, row

OPS = 51


def chain(x: Any) -> None:
    y = x
    for _ in range(10):
        y = ((y.tanh() * x).sigmoid() + x) * 0.5
    y.sum().backward()
    x.grad = None


def run() -> list[Row]:
    torch.set_num_threads(1)
    a = np.random.default_rng(0).random((8, 8), dtype=np.float32)
    x = cr.tensor(a, requires_grad=True)
    t = torch.tensor(a, requires_grad=True)
    ours, peer = pair(lambda: chain(x), lambda: chain(t))
    return [row("eager op, forward + backward, (8, 8) float32", ours, peer, "≤ 0.70", per=OPS)]
