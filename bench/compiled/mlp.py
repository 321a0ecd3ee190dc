"""How long does a training step of an MLP take, beside PyTorch and JAX?

784-256-128-10, ReLU, batches of 64, cross-entropy, Adam, float32. All start from the same weights
and must give the same losses.
"""

from __future__ import annotations

import os
from collections.abc import Callable
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
from chainrule.models.mlp import MLP

SIZES, BATCH, RATE = (784, 256, 128, 10), 64, 1e-3
Steps = Callable[[], Any]


def by_chainrule(model: MLP, x: Any, y: Any) -> Steps:
    adam = optim.Adam(model.parameters(), lr=RATE)
    tokens, targets = cr.asarray(x), cr.asarray(y)

    def step(x: Any, y: Any) -> Any:
        loss = cr.cross_entropy(model(x), y)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    call = ours.compiled(step)
    return lambda: call(tokens, targets).detach()


def loss_in_torch(ws: Any, x: Any, y: Any) -> Any:
    h = F.relu(F.linear(x, ws[0], ws[1]))
    h = F.relu(F.linear(h, ws[2], ws[3]))
    return F.cross_entropy(F.linear(h, ws[4], ws[5]), y)


def loss_in_jax(ws: Any, x: Any, y: Any) -> Any:
    h = jax.nn.relu(x @ ws[0].T + ws[1])
    h = jax.nn.relu(h @ ws[2].T + ws[3])
    scores = jax.nn.log_softmax(h @ ws[4].T + ws[5])
    return -scores[jnp.arange(BATCH), y].mean()


def run() -> list[Row]:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, SIZES[0]), dtype=np.float32)
    y = rng.integers(0, SIZES[-1], BATCH)
    model = MLP(SIZES, generator=cr.Generator(0))
    weights = [p.detach().numpy().copy() for p in model.parameters()]
    runners = [
        Runner(ours.NAME, by_chainrule(model, x, y)),
        Runner("PyTorch eager", by_torch(loss_in_torch, weights, (x, y), RATE)),
        Runner("JAX jit", by_jax(loss_in_jax, weights, (x, y), RATE)),
    ]
    same_losses(runners, steps=5, tolerance=1e-4)
    times = race(runners, blocks=15, runs=40)
    return table("MLP 784-256-128-10, batch 64", runners, times, "≤ 0.50, 0.83")
