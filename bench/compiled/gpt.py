"""How long does a training step of a GPT with 10.8 million parameters take, beside PyTorch and JAX?

6 layers, 384 channels, 6 heads, 256 positions, 65 tokens, batches of 4, GPT-2's architecture
without dropout, AdamW, float32. All start from the same weights and must give the same losses.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import chainrule as cr
from bench.compiled import gpt_peers as peers
from bench.compiled import ours
from bench.compiled.race import Runner, race, same_losses, table
from bench.pairs import Row, seconds, show
from chainrule import optim
from chainrule.models.gpt import GPT, GPTConfig, generator_draw

LAYERS, HEADS, BATCH, T, VOCAB = 6, 6, 4, 256, 65


def build(config: GPTConfig, batch: int, positions: int) -> tuple[GPT, Any, Any]:
    """A model, tokens and targets (batch, positions); the same each time."""
    rng = np.random.default_rng(0)
    data = rng.integers(0, config.vocab_size, (batch, positions + 1))
    model = GPT(config, draw=generator_draw(cr.Generator(0)))
    return model, data[:, :-1].copy(), data[:, 1:].copy()


def small() -> tuple[GPT, Any, Any]:
    """The model of this question."""
    config = GPTConfig.gpt2(VOCAB, T, n_layer=LAYERS, n_head=HEADS, n_embd=384)
    return build(config, BATCH, T)


def by_chainrule(model: GPT, tokens: Any, targets: Any) -> Callable[[], Any]:
    """One step of AdamW."""
    adam = optim.AdamW(
        model.parameters(), lr=peers.RATE, betas=peers.BETAS, eps=peers.EPS,
        weight_decay=peers.DECAY,
    )  # fmt: skip
    x, y = cr.asarray(tokens), cr.asarray(targets)

    def step(x: Any, y: Any) -> Any:
        loss = model.loss(x, y)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    call = ours.compiled(step)
    return lambda: call(x, y).detach()


def weights_of(model: GPT) -> dict[str, Any]:
    """Copies, by name."""
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters()}


def run() -> list[Row]:
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    torch.set_num_threads(threads)
    model, x, y = small()
    given = (weights_of(model), x, y, LAYERS, HEADS)
    runners = [Runner(ours.NAME, by_chainrule(model, x, y))]
    runners.append(Runner("PyTorch eager", peers.torch_step(*given)))
    if shutil.which("g++") is not None:
        runners.append(Runner("torch.compile", peers.torch_step(*given, compiled=True)))
    runners.append(Runner("JAX jit", peers.jax_step(*given)))
    first = [show(seconds(lambda r=r: same_losses([r], steps=1, tolerance=0))) for r in runners]
    same_losses(runners, steps=2, tolerance=2e-3)
    runners = [
        Runner(r.name, r.run, note="" if r.name == ours.NAME else f"first call {f}")
        for r, f in zip(runners, first, strict=True)
    ]
    times = race(runners, blocks=5, runs=2)
    return table(f"GPT 10.8 M, {threads} threads", runners, times, "≤ 0.77")
