"""How long do losses and gradients of single numbers take, with `jit` and without?

micrograd's MLP (2-16-16-1, 100 points, hinge loss and L2) and microgpt, one document; forward and
backward, on `Value`s.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import chainrule as cr
from bench.compiled import ours
from bench.compiled.race import Runner, race, table
from bench.pairs import Row
from chainrule.models.config import GPTConfig
from chainrule.models.gpt import python_draw
from chainrule.models.scalar_gpt import ScalarGPT
from chainrule.scalar import Value


def mlp() -> Callable[[], Any]:
    """The loss of micrograd's MLP on points of two rings."""
    rng = random.Random(1)
    sizes = (2, 16, 16, 1)
    layers = [
        [[Value(rng.uniform(-1, 1)) for _ in range(m + 1)] for _ in range(n)]
        for m, n in pairwise(sizes)
    ]
    points = [(rng.uniform(-1, 1), rng.uniform(-1, 1)) for _ in range(100)]

    def score(x: Any) -> Value:
        for i, layer in enumerate(layers):
            x = [sum((w * a for w, a in zip(row, x, strict=False)), row[-1]) for row in layer]
            x = x if i == 2 else [a.relu() for a in x]
        return x[0]

    def loss() -> Any:
        margins = [
            (1 - (1 if a * a + b * b > 0.5 else -1) * score([a, b])).relu() for a, b in points
        ]
        squares = sum([w * w for layer in layers for row in layer for w in row])
        return sum(margins) * (1 / len(points)) + 1e-4 * squares

    return loss


def gpt() -> Callable[[], Value]:
    """The loss of microgpt on one document of eight tokens."""
    config = GPTConfig(vocab_size=27, block_size=16, n_layer=1, n_head=4, n_embd=16)
    model = ScalarGPT(config, python_draw(random.Random(42)))
    tokens = (26, 4, 12, 12, 0, 17, 8, 26)
    return lambda: model.loss(tokens)


def measured(name: str, loss: Callable[[], Any], aim: str) -> list[Row]:
    compiled = cr.jit(loss)
    if compiled().data != loss().data:
        raise AssertionError(f"{name}: the numbers differ")
    runners = [
        Runner(ours.NAME, lambda: compiled().backward()),
        Runner("Value", lambda: loss().backward()),
    ]
    return table(f"{name}, forward and backward", runners, race(runners, blocks=5, runs=5), aim)


def run() -> list[Row]:
    return measured("micrograd's MLP", mlp(), "<= 0.1") + measured("microgpt", gpt(), "<= 0.1")
