"""How accurate and how fast is an MLP on scikit-learn's digits, beside PyTorch?

64-64-10, ReLU, mini-batches of 64, Adam, float32, one thread each; 1,437 rows to train on, 360 to
test.
"""

from __future__ import annotations

import random
import statistics
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

import chainrule as cr
from bench.pairs import Row, row, seconds
from chainrule import nn, optim

SIZES, BATCH, EPOCHS, RATE = (64, 64, 10), 64, 30, 3e-3


def digits() -> tuple[Any, Any, Any, Any]:
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    x = (data.data[order] / 16).astype(np.float32)
    y = data.target[order].astype(np.int64)
    return x[:1437], y[:1437], x[1437:], y[1437:]


def ours(x: Any, y: Any, xt: Any, yt: Any) -> float:
    generator = cr.Generator(0)
    model = nn.Sequential(
        nn.Linear(64, 64, generator=generator), nn.ReLU(), nn.Linear(64, 10, generator=generator)
    )
    adam = optim.Adam(model.parameters(), lr=RATE)
    rng = np.random.default_rng(1)
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for i in range(0, len(x), BATCH):
            rows = order[i : i + BATCH]
            adam.zero_grad()
            logits = model(cr.asarray(x[rows]))
            cr.cross_entropy(logits, cr.asarray(y[rows])).backward()
            adam.step()
    with cr.no_grad():
        return float((model(cr.asarray(xt)).argmax(axis=1).numpy() == yt).mean())


def theirs(x: Any, y: Any, xt: Any, yt: Any) -> float:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    rng = np.random.default_rng(1)
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for i in range(0, len(x), BATCH):
            rows = order[i : i + BATCH]
            adam.zero_grad()
            logits = model(torch.from_numpy(x[rows]))
            F.cross_entropy(logits, torch.from_numpy(y[rows])).backward()
            adam.step()
    with torch.no_grad():
        return float((model(torch.from_numpy(xt)).argmax(1).numpy() == yt).mean())


def run() -> list[Row]:
    torch.set_num_threads(1)
    random.seed(0)
    data = digits()
    accuracy: dict[str, float] = {}
    times: dict[str, list[float]] = {"ours": [], "theirs": []}

    def go(name: str, f: Any) -> None:
        accuracy[name] = f(*data)

    for _ in range(5):
        times["ours"].append(seconds(lambda: go("ours", ours)))
        times["theirs"].append(seconds(lambda: go("theirs", theirs)))
    mine, peer = statistics.median(times["ours"]), statistics.median(times["theirs"])
    share = f"test accuracy {accuracy['ours']:.1%} (PyTorch {accuracy['theirs']:.1%})"
    return [row(f"MLP 64-64-10 on digits, {EPOCHS} epochs, {share}", mine, peer, "≤ 1.00")]
