"""How fast is a training step of small models beside PyTorch? float32, one thread.

Forward, backward and a step of Adam. The models are written once, for both: the names are the same.
Compiled, ours is the whole step; PyTorch's is `torch.compile` of the loss, and of the optimizer's
step where that is faster. First calls compile; ours may find its code in the cache. The last rows
are a step of Adam alone, eager.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import chainrule as cr
from bench.pairs import Row, pair, row, seconds, show

Step = Callable[[], Any]


def language_model(lib: Any, nn: Any, tensor: Any) -> tuple[list[Any], Step]:
    """Embedding, LSTM and a linear layer over 64 tokens: 16 sequences of 32."""
    embed, lstm, head = nn.Embedding(64, 64), nn.LSTM(64, 64), nn.Linear(64, 64)
    tokens = np.random.default_rng(1).integers(0, 64, (33, 16))
    x, y = tensor(tokens[:-1]), tensor(tokens[1:].reshape(-1))

    def loss() -> Any:
        return nn.functional.cross_entropy(head(lstm(embed(x))[0]).reshape(-1, 64), y)

    return [embed, lstm, head], loss


def resnet(lib: Any, nn: Any, tensor: Any) -> tuple[list[Any], Step]:
    """A residual network of three blocks on 16 images 32x32 of 10 classes."""
    stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    blocks: list[tuple[Any, Any]] = []
    for a, b, s in ((16, 16, 1), (16, 32, 2), (32, 64, 2)):
        main = nn.Sequential(
            nn.Conv2d(a, b, 3, stride=s, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
            nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b),
        )  # fmt: skip
        blocks.append((main, nn.Conv2d(a, b, 1, stride=s)))
    head = nn.Linear(64, 10)
    rng = np.random.default_rng(2)
    x = tensor(rng.standard_normal((16, 3, 32, 32), dtype=np.float32))
    y = tensor(rng.integers(0, 10, 16))

    def loss() -> Any:
        h = stem(x)
        for main, skip in blocks:
            h = nn.functional.relu(main(h) + skip(h))
        return nn.functional.cross_entropy(head(h.mean((2, 3))), y)

    return [stem, *[m for pair in blocks for m in pair], head], loss


def autoencoder(lib: Any, nn: Any, tensor: Any) -> tuple[list[Any], Step]:
    """A variational autoencoder of 64 images 28x28: 784, 256, 20, 256, 784."""
    inside, ends = nn.Linear(784, 256), nn.Linear(256, 40)
    outside = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 784))
    rng = np.random.default_rng(3)
    x = tensor(rng.random((64, 784), dtype=np.float32))
    noise = tensor(rng.standard_normal((64, 20), dtype=np.float32))

    def loss() -> Any:
        h = ends(nn.functional.relu(inside(x)))
        mean, log_var = h[:, :20], h[:, 20:]
        logits = outside(mean + noise * lib.exp(0.5 * log_var))
        fit = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        return fit - 0.5 * (1 + log_var - mean * mean - lib.exp(log_var)).sum()

    return [inside, ends, outside], loss


MODELS = {
    "LSTM language model, 32x16 tokens": language_model,
    "ResNet of 3 blocks, 16x3x32x32": resnet,
    "variational autoencoder, 64x784": autoencoder,
}


def training(make: Any, lib: Any, optim: Any, tensor: Any, **how: Any) -> Step:
    """A step of training; `loss` and `step`, if they are given, compile these parts of it."""
    modules, loss = make(lib, lib.nn, tensor)
    optimizer = optim.Adam([p for m in modules for p in m.parameters()], lr=1e-3)
    loss, update = how.get("loss", same)(loss), how.get("step", same)(optimizer.step)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        update()

    return step


def same(f: Any) -> Any:
    """f as it is."""
    return f


def compiled(name: str, make: Any) -> Row:
    """A compiled step, beside the faster of two of PyTorch's."""
    ours = cr.jit(training(make, cr, cr.optim, cr.asarray))
    first = seconds(ours)
    peers: list[tuple[float, float, Step]] = []
    compiler: Any = torch
    for step in (same, compiler.compile):
        compiler.compiler.reset()
        how = {"loss": compiler.compile, "step": step}
        peer = training(make, torch, torch.optim, torch.tensor, **how)
        began = seconds(peer)
        peers.append((statistics.median([seconds(peer) for _ in range(15)]), began, peer))
    _, began, peer = min(peers, key=lambda p: p[0])
    mine, theirs = pair(ours, peer, blocks=9, runs=5)
    what = f"{name}, compiled; first call {show(first)}, PyTorch's {show(began)}"
    return row(what, mine, theirs, "≤ 0.80")


SHAPES = [(1024, 1024)] * 12 + [(1024, 1536), (1024,)]
"""Of 14 million parameters."""


def adam(lib: Any, tensor: Any, **how: Any) -> Step:
    """A step of Adam on parameters that have gradients."""
    rng = np.random.default_rng(4)
    parameters = [
        tensor(rng.standard_normal(s, dtype=np.float32), requires_grad=True) for s in SHAPES
    ]
    for p in parameters:
        p.grad = tensor(rng.standard_normal(p.shape, dtype=np.float32))
    return lib.optim.Adam(parameters, lr=1e-3, **how).step


def optimizers() -> list[Row]:
    """A step of Adam alone, beside PyTorch's as it is by default, and beside its fused one."""
    ours = adam(cr, cr.tensor)
    count = sum([int(np.prod(s)) for s in SHAPES]) / 1e6
    rows: list[Row] = []
    for what, how in (("PyTorch's default", {}), ("`fused=True`", {"fused": True})):
        mine, theirs = pair(ours, adam(torch, torch.tensor, **how), blocks=7, runs=3)
        aim = "" if how else "≤ 1.00"
        rows.append(row(f"Adam, {count:.0f} M parameters / {what}", mine, theirs, aim))
    return rows


def run() -> list[Row]:
    torch.set_num_threads(1)
    cr.set_num_threads(1)
    rows: list[Row] = []
    for name, make in MODELS.items():
        ours = training(make, cr, cr.optim, cr.asarray)
        peer = training(make, torch, torch.optim, torch.tensor)
        mine, theirs = pair(ours, peer, blocks=9, runs=3)
        rows.append(row(name, mine, theirs, "≤ 1.00"))
    rows += [compiled(name, make) for name, make in MODELS.items()]
    return [*rows, *optimizers()]
