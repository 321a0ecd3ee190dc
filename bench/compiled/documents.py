"""What microgpt is trained on, and from which weights: the run of `microgpt_reference.json`.

Found by walking up to a folder `shared/data` beside the repository. The order of the random numbers
is that of the reference: shuffle the names, then draw each weight.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SHAPES = {
    "wte": (27, 16), "wpe": (16, 16), "head": (27, 16), "qkv": (48, 16),
    "proj": (16, 16), "fc1": (64, 16), "fc2": (16, 64),
}  # fmt: skip
BLOCK, VOCAB, HEADS = 16, 27, 4
RATE, BETAS, EPS = 0.01, (0.85, 0.99), 1e-8


@dataclass(frozen=True)
class Run:
    """The first steps of the reference: document and learning rate of each, and where it starts."""

    documents: list[Any]
    """int64 (T + 1,): read the first T tokens, predict the last T."""
    rates: list[float]
    weights: dict[str, Any]
    """float32, in the order and shapes of `SHAPES`."""
    losses: Any
    """What the reference printed, (steps,)."""


def shared(name: str) -> Path:
    """A file of the shared data; `FileNotFoundError` if there is none."""
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "data" / name).is_file():
            return folder / "shared" / "data" / name
    raise FileNotFoundError(f"there is no shared/data/{name} beside the repository")


@cache
def reference(steps: int = 1000) -> Run:
    """The run, of at most 1,000 steps."""
    rng = random.Random(42)
    names = [line.strip() for line in shared("names.txt").read_text(encoding="utf-8").splitlines()]
    names = [n for n in names if n]
    rng.shuffle(names)
    letters = {c: i for i, c in enumerate(sorted(set("".join(names))))}
    weights: dict[str, Any] = {}
    for name, (rows, columns) in SHAPES.items():
        drawn = [rng.gauss(0, 0.08) for _ in range(rows * columns)]
        weights[name] = np.array(drawn, np.float32).reshape(rows, columns)
    documents = [np.array([26, *[letters[c] for c in n], 26][: BLOCK + 1]) for n in names[:steps]]
    losses = json.loads(shared("microgpt_reference.json").read_text(encoding="utf-8"))["losses"]
    rates = [RATE * (1 - s / 1000) for s in range(steps)]
    return Run(documents, rates, weights, np.array(losses[:steps]))


def padded(run: Run) -> tuple[Any, Any, Any]:
    """Tokens, targets (int32), mask (float32), each (steps, 16): 0 past the end of a document."""
    n = len(run.documents)
    tokens, targets = np.zeros((n, BLOCK), np.int32), np.zeros((n, BLOCK), np.int32)
    mask = np.zeros((n, BLOCK), np.float32)
    for i, d in enumerate(run.documents):
        tokens[i, : len(d) - 1], targets[i, : len(d) - 1] = d[:-1], d[1:]
        mask[i, : len(d) - 1] = 1
    return tokens, targets, mask
