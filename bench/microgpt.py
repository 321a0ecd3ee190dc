"""How long does a microgpt training step take in eager mode, Adam included, beside PyTorch?

One document of 8 positions, 4,192 parameters, float32, one thread each: the model of `models.gpt`
and the same one written in PyTorch's words.
"""

from __future__ import annotations

import math
import random

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

import chainrule as cr
from bench.pairs import Row, pair, row
from chainrule import optim
from chainrule.models.gpt import GPT, GPTConfig, python_draw

VOCAB, BLOCK, WIDTH, HEADS = 27, 16, 16, 4
TOKENS = np.array([26, 4, 12, 12, 0, 11, 8, 13])
TARGETS = np.array([4, 12, 12, 0, 11, 8, 13, 26])


class TorchGPT(torch.nn.Module):
    """microgpt with PyTorch's own functions."""

    def __init__(self) -> None:
        super().__init__()
        rng = random.Random(42)
        for name, shape in (
            ("wte", (VOCAB, WIDTH)), ("wpe", (BLOCK, WIDTH)), ("head", (VOCAB, WIDTH)),
            ("qkv", (3 * WIDTH, WIDTH)), ("proj", (WIDTH, WIDTH)),
            ("fc1", (4 * WIDTH, WIDTH)), ("fc2", (WIDTH, 4 * WIDTH)),
        ):  # fmt: skip
            numbers = [rng.gauss(0, 0.08) for _ in range(math.prod(shape))]
            weight = torch.tensor(numbers).reshape(shape)
            self.register_parameter(name, torch.nn.Parameter(weight))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        T = tokens.shape[0]
        x = F.rms_norm(self.wte[tokens] + self.wpe[:T], (WIDTH,), eps=1e-5)
        h = F.rms_norm(x, (WIDTH,), eps=1e-5)
        q, k, v = (h @ self.qkv.T).reshape(T, 3, HEADS, -1).permute(1, 2, 0, 3)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(0, 1).reshape(T, WIDTH) @ self.proj.T
        h = F.rms_norm(x, (WIDTH,), eps=1e-5)
        x = x + F.relu(h @ self.fc1.T) @ self.fc2.T
        return x @ self.head.T


def run() -> list[Row]:
    torch.set_num_threads(1)
    model = GPT(GPTConfig.microgpt(VOCAB, BLOCK), draw=python_draw(random.Random(42)))
    adam = optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99))
    tokens, targets = cr.asarray(TOKENS), cr.asarray(TARGETS)

    def ours() -> None:
        adam.zero_grad()
        model.loss(tokens, targets).backward()
        adam.step()

    peer_model = TorchGPT()
    peer_adam = torch.optim.Adam(peer_model.parameters(), lr=0.01, betas=(0.85, 0.99))
    x, y = torch.tensor(TOKENS), torch.tensor(TARGETS)

    def peer() -> None:
        peer_adam.zero_grad()
        F.cross_entropy(peer_model(x), y).backward()
        peer_adam.step()

    return [row("microgpt step, eager, Adam, float32", *pair(ours, peer), "≤ 0.80")]
