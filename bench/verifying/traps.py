"""What does `trap_nan` cost while it is on, beside the same program without it?

The eager chain of ops on small arrays, where the trap's own work weighs most, and a training step
of a small GPT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from bench.eager import OPS, chain
from bench.pairs import Row, pair, row
from chainrule.explain import strict, trap_nan
from chainrule.models.config import GPTConfig
from chainrule.models.gpt import GPT, generator_draw


def gpt_step() -> Callable[[], None]:
    """Forward and backward of a GPT, on 16 sequences."""
    model = GPT(GPTConfig.microgpt(27, 8), draw=generator_draw(cr.Generator(0)))
    rng = np.random.default_rng(0)
    tokens = cr.tensor(rng.integers(0, 27, (16, 8)))
    targets = cr.tensor(rng.integers(0, 27, (16, 8)))

    def step() -> None:
        cr.cross_entropy(model(tokens), targets).backward()
        model.zero_grad()

    return step


def trapped(f: Callable[[], Any]) -> Callable[[], None]:
    """`f` within a trap."""

    def within() -> None:
        with trap_nan(inf=True):
            f()

    return within


def strictly(f: Callable[[], Any]) -> Callable[[], None]:
    """`f` in strict mode."""

    def within() -> None:
        with strict():
            f()

    return within


def run() -> list[Row]:
    x = cr.tensor(np.random.default_rng(0).random((8, 8), dtype=np.float32), requires_grad=True)
    small, step = (lambda: chain(x)), gpt_step()
    rows: list[Row] = []
    for name, wrap, aim in (("trap_nan", trapped, "≤ 1.30"), ("strict", strictly, "")):
        on, off = pair(wrap(small), small)
        rows.append(row(f"{name} on, an op, forward + backward, (8, 8)", on, off, aim, per=OPS))
        on, off = pair(wrap(step), step, blocks=9, runs=8)
        rows.append(row(f"{name} on, a step of a small GPT, batch 16", on, off, aim))
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)
