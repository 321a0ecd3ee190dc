"""How many tokens a second does a GPT of 4,192 parameters draw, beside NumPy by hand?

float32, trained for 1,000 steps on names; one core. NumPy keeps keys and values, too, and draws the
same names of the same numbers. Tokens that are drawn count, ends of names included. Seconds are the
processor's, medians of blocks of calls in turn. The first call, which compiles, has a row.
"""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from bench.pairs import Row, show
from chainrule.cli.settings import new_settings
from chainrule.cli.tensor_engine import TensorEngine
from chainrule.cli.trainer import Run
from chainrule.data import load_names
from chainrule.models.gpt import GPT

BOS, NEW, TEMPERATURE, HEADS = 26, 15, 0.5, 4
MANY, SIDE_BY_SIDE, BLOCKS, CALLS = 4000, 250, 5, 5


def trained() -> GPT:
    """The model after the steps of the reference run, on the names in the package."""
    run = Run.begin(new_settings({"preset": "microgpt", "dtype": "float32"}), load_names())
    while not run.is_complete:
        run.advance()
    state = run.engine.state()
    engine = TensorEngine(run.settings, run.settings.model(27), lambda shape, std: np.zeros(shape))
    engine.load(state)
    return engine.model


def norm(x: Any) -> Any:
    return x * (np.square(x).mean(-1, keepdims=True) + np.float32(1e-5)) ** np.float32(-0.5)


class ByHand:
    """The model in NumPy: G sequences, a position at a time."""

    def __init__(self, model: GPT) -> None:
        w = {n: t.numpy() for n, t in model.state_dict().items()}
        self.wte, self.wpe = w["wte.weight"], w["wpe.weight"]
        names = "attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"
        qkv, proj, fc1, fc2 = (np.ascontiguousarray(w[f"blocks.0.{n}.weight"].T) for n in names)
        self.qkv, self.proj, self.fc1, self.fc2 = qkv, proj, fc1, fc2
        self.head = np.ascontiguousarray(w["lm_head.weight"].T)

    def logits(self, tokens: Any, t: int, keys: Any, values: Any) -> Any:
        """Of the tokens at position t; keys and values (G, T, C) get theirs."""
        G, C = len(tokens), 16
        x = norm(self.wte[tokens] + self.wpe[t])
        qkv: Any = norm(x) @ self.qkv
        keys[:, t], values[:, t] = qkv[:, C : 2 * C], qkv[:, 2 * C :]
        kept = qkv[:, None, :C], keys[:, : t + 1], values[:, : t + 1]
        q, k, v = (a.reshape(G, -1, HEADS, C // HEADS).transpose(0, 2, 1, 3) for a in kept)
        scores = (q @ k.transpose(0, 1, 3, 2)) * np.float32(0.5)
        e: Any = np.exp(scores - scores.max(-1, keepdims=True))
        y = (e / e.sum(-1, keepdims=True)) @ v
        x = x + y.transpose(0, 2, 1, 3).reshape(G, C) @ self.proj
        x = x + np.maximum(norm(x) @ self.fc1, 0) @ self.fc2
        return x @ self.head

    def draw(self, numbers: Any) -> list[list[int]]:
        """Names, side by side, of numbers (names, NEW)."""
        G = len(numbers)
        keys, values = np.zeros((2, G, NEW + 1, 16), np.float32)
        going = np.ones(G, bool)
        tokens: Any = np.full(G, BOS)
        out: list[list[int]] = [[] for _ in range(G)]
        for t in range(NEW):
            logits = self.logits(tokens, t, keys, values).astype(np.float64)
            e = np.exp((logits - logits.max(-1, keepdims=True)) / TEMPERATURE)
            sums: Any = np.cumsum(e, -1)
            tokens = (sums[:, :-1] <= numbers[:, t, None] * sums[:, -1:]).sum(-1)
            going &= tokens != BOS
            for i in np.flatnonzero(going):
                out[i].append(tokens[i].item())
            if not going.any():
                break
        return out

    def one_by_one(self, count: int, rng: random.Random) -> list[list[int]]:
        """Names, one after the other, each of as many numbers as it has tokens."""
        out: list[list[int]] = []
        keys, values = np.zeros((2, 1, NEW + 1, 16), np.float32)
        for _ in range(count):
            token, name = BOS, list[int]()
            for t in range(NEW):
                logits = self.logits([token], t, keys, values)[0].astype(np.float64)
                e = np.exp((logits - logits.max()) / TEMPERATURE)
                sums = np.cumsum(e)
                token = int(np.searchsorted(sums[:-1], rng.random() * sums[-1], side="right"))
                if token == BOS:
                    break
                name.append(token)
            out.append(name)
        return out

    def side_by_side(self, count: int, rng: random.Random) -> list[list[int]]:
        """Names, so many at a time, each of `NEW` numbers."""
        numbers = np.array([rng.random() for _ in range(count * NEW)]).reshape(count, NEW)
        parts = range(0, count, SIDE_BY_SIDE)
        return [name for i in parts for name in self.draw(numbers[i : i + SIDE_BY_SIDE])]


Draw = Callable[[random.Random], list[list[int]]]


def tokens(names: list[list[int]]) -> int:
    """How many were drawn."""
    return sum([len(n) + (len(n) < NEW) for n in names])


def speed(what: str, ours: Draw, peer: Draw, aim: str) -> Row:
    """A row; both have to draw the same names."""
    names = ours(random.Random(1))
    same = sum([a == b for a, b in zip(names, peer(random.Random(1)), strict=True)])
    if same < 0.999 * len(names):  # a number may fall between two roundings of a sum
        raise AssertionError(f"{what}: {len(names) - same} of {len(names)} names differ")
    n = tokens(names)
    times: tuple[list[float], list[float]] = [], []
    for _ in range(BLOCKS):
        for f, found in zip((ours, peer), times, strict=True):
            f(random.Random(1))
            found += [seconds(f, random.Random(1)) for _ in range(CALLS)]
    mine, theirs = map(statistics.median, times)
    said = [f"{n / each:,.0f} tokens/s" for each in (mine, theirs)]
    return Row(what, said[0], said[1], f"{mine / theirs:.3f}", aim)


def seconds(f: Draw, rng: random.Random) -> float:
    start = process_time()
    f(rng)
    return process_time() - start


def first_call(model: GPT, **asked: Any) -> float:
    start = process_time()
    model.generate([[BOS]] * 16, max_new_tokens=NEW, stop=BOS, **asked)
    return process_time() - start


def run() -> list[Row]:
    from chainrule.blas_threads import set_threads

    set_threads(1)
    model = trained()
    os.environ["CHAINRULE_CACHE_DIR"] = ""
    hand = ByHand(model)
    prompts = [[BOS]] * MANY
    times = [first_call(model, one_by_one=one) for one in (True, False)]

    def ours(count: int, one_by_one: bool) -> Draw:
        return lambda rng: model.generate(
            prompts[:count], max_new_tokens=NEW, stop=BOS, temperature=TEMPERATURE, generator=rng,
            one_by_one=one_by_one,
        )  # fmt: skip

    def calls(rng: random.Random) -> list[list[int]]:
        return [name for _ in range(300) for name in ours(1, True)(rng)]

    return [
        speed(f"{MANY} names in one call, side by side", ours(MANY, False),
              lambda rng: hand.side_by_side(MANY, rng), "≥ 1,000,000"),
        speed("300 names in one call, one after the other", ours(300, True),
              lambda rng: hand.one_by_one(300, rng), "≥ 300,000"),
        speed("300 names, a call for each", calls, lambda rng: hand.one_by_one(300, rng), ""),
        Row("the first call: compiled, from no cache", f"{show(times[0])} one after the other, "
            f"{show(times[1])} side by side", "", "", "< 2 s"),
    ]  # fmt: skip
