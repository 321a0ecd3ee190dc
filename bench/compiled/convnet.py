"""How long does a training step of a small convolutional net take, beside PyTorch and JAX?

3x3 kernels without padding, ReLU, maxima over 2x2, a linear layer; cross-entropy, Adam, float32.
All start from the same weights and must give the same losses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

import chainrule as cr
from bench.compiled import ours
from bench.compiled.race import Runner, race, same_losses, table
from bench.compiled.with_adam import by_jax, by_torch
from bench.pairs import Row
from chainrule import optim
from chainrule.nn.functional import conv2d, max_pool2d

RATE, CLASSES = 1e-3, 10
NETS = {
    "28x28, 8-16 channels, batch 32": (32, (1, 28), (8, 16)),
    "28x28, 32-64 channels, batch 64": (64, (1, 28), (32, 64)),
    "3x32x32, 32-64-128 channels, batch 32": (32, (3, 32), (32, 64, 128)),
}
"""By words: batch, channels and width of the images, channels of the layers."""
Steps = Callable[[], Any]


def by_chainrule(weights: Sequence[Any], x: Any, y: Any) -> Steps:
    ws = [cr.tensor(w, requires_grad=True) for w in weights]
    adam = optim.Adam(ws, lr=RATE)
    images, targets = cr.asarray(x), cr.asarray(y)

    def step(x: Any, y: Any) -> Any:
        h = x
        for w in ws[:-1]:
            h = max_pool2d(cr.relu(conv2d(h, w)), 2)
        loss = cr.cross_entropy(h.reshape(h.shape[0], -1) @ ws[-1], y)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    call = ours.compiled(step)
    return lambda: call(images, targets).detach()


def loss_in_torch(ws: Any, x: Any, y: Any) -> Any:
    h = x
    for w in ws[:-1]:
        h = F.max_pool2d(F.relu(F.conv2d(h, w)), 2)
    return F.cross_entropy(h.flatten(1) @ ws[-1], y)


def loss_in_jax(ws: Any, x: Any, y: Any) -> Any:
    h = x
    for w in ws[:-1]:
        h = jax.nn.relu(jax.lax.conv(h, w, (1, 1), "VALID"))
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    scores = jax.nn.log_softmax(h.reshape(h.shape[0], -1) @ ws[-1])
    return -scores[jnp.arange(len(y)), y].mean()


def drawn(
    batch: int, image: tuple[int, int], channels: Sequence[int]
) -> tuple[list[Any], Any, Any]:
    """Weights, images and classes."""
    rng = np.random.default_rng(0)
    before, width = image
    x = rng.standard_normal((batch, before, width, width), dtype=np.float32)
    weights: list[Any] = []
    for n in channels:
        w = rng.standard_normal((n, before, 3, 3), dtype=np.float32)
        weights.append(w / np.float32(np.sqrt(9 * before)))
        before, width = n, (width - 2) // 2
    last = rng.standard_normal((before * width * width, CLASSES), dtype=np.float32)
    return [*weights, last * np.float32(0.05)], x, rng.integers(0, CLASSES, batch)


def run() -> list[Row]:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    rows: list[Row] = []
    for words, net in NETS.items():
        weights, x, y = drawn(*net)
        runners = [
            Runner(ours.NAME, by_chainrule(weights, x, y)),
            Runner("PyTorch eager", by_torch(loss_in_torch, weights, (x, y), RATE)),
            Runner("JAX jit", by_jax(loss_in_jax, weights, (x, y), RATE)),
        ]
        same_losses(runners, steps=5, tolerance=1e-3)
        times = race(runners, blocks=9, runs=8)
        rows += table(f"convolutional net, {words}", runners, times, "< 1.00")
    return rows
