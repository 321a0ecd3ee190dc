"""How fast are layers in eager mode, forward and backward, beside PyTorch? float32, one thread.

Small and medium sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import chainrule as cr
from bench.pairs import Row, pair, row

Make = Callable[[Any], Any]
"""From `chainrule.nn` or `torch.nn`, whose names are the same, a module."""

LAYERS: list[tuple[str, Make, tuple[int, ...]]] = [
    ("Linear(64, 64)", lambda nn: nn.Linear(64, 64), (32, 64)),
    ("BatchNorm1d(64)", lambda nn: nn.BatchNorm1d(64), (32, 64)),
    ("BatchNorm2d(16)", lambda nn: nn.BatchNorm2d(16), (16, 16, 14, 14)),
    ("LayerNorm(64)", lambda nn: nn.LayerNorm(64), (32, 64)),
    ("GroupNorm(4, 16)", lambda nn: nn.GroupNorm(4, 16), (16, 16, 14, 14)),
    ("RNN(32, 32)", lambda nn: nn.RNN(32, 32), (10, 8, 32)),
    ("RNN(128, 128)", lambda nn: nn.RNN(128, 128), (35, 20, 128)),
    ("GRU(32, 32)", lambda nn: nn.GRU(32, 32), (10, 8, 32)),
    ("GRU(128, 128)", lambda nn: nn.GRU(128, 128), (35, 20, 128)),
    ("LSTM(32, 32)", lambda nn: nn.LSTM(32, 32), (10, 8, 32)),
    ("LSTM(128, 128)", lambda nn: nn.LSTM(128, 128), (35, 20, 128)),
    ("Conv1d(16, 16, 3)", lambda nn: nn.Conv1d(16, 16, 3, padding=1), (16, 16, 50)),
    ("Conv2d(1, 8, 3)", lambda nn: nn.Conv2d(1, 8, 3, padding=1), (16, 1, 28, 28)),
    ("Conv2d(16, 16, 3)", lambda nn: nn.Conv2d(16, 16, 3, padding=1), (32, 16, 28, 28)),
    (
        "ConvTranspose2d(8, 8, 4)",
        lambda nn: nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1),
        (16, 8, 14, 14),
    ),
    ("MaxPool2d(2)", lambda nn: nn.MaxPool2d(2), (16, 16, 28, 28)),
    ("AvgPool2d(2)", lambda nn: nn.AvgPool2d(2), (16, 16, 28, 28)),
    ("Upsample(2)", lambda nn: nn.Upsample(scale_factor=2), (16, 8, 14, 14)),
    ("Embedding(100, 32)", lambda nn: nn.Embedding(100, 32), (16, 20)),
    (
        "TransformerEncoderLayer(32, 4, 64)",
        lambda nn: nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0),
        (10, 8, 32),
    ),
]
"""What, how it is made, the shape of what it is given."""


def step(module: Any, x: Any) -> Callable[[], None]:
    """A forward and a backward pass."""
    needed = [*module.parameters(), *([x] if x.requires_grad else [])]

    def run() -> None:
        y = module(x)
        (y[0] if isinstance(y, tuple) else y).sum().backward()
        for p in needed:
            p.grad = None

    return run


def run() -> list[Row]:
    torch.set_num_threads(1)
    cr.set_num_threads(1)
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for name, make, shape in LAYERS:
        floats = not name.startswith("Embedding")
        a = rng.standard_normal(shape, dtype=np.float32) if floats else rng.integers(0, 100, shape)
        ours: Any = cr.tensor(a, requires_grad=True) if floats else cr.asarray(a)
        peer = torch.tensor(a, requires_grad=floats)
        both = step(make(cr.nn), ours), step(make(torch.nn), peer)
        mine, theirs = pair(*both, blocks=9, runs=3 if a.size > 50_000 else 20)
        rows.append(row(f"{name}, x {'x'.join(map(str, shape))}", mine, theirs, "≤ 1.00"))
    return rows
