"""How long does a training step of GPT-2 (124 M) take, and how much memory, beside PyTorch?

4 rows of 64 positions, AdamW, float32; each side in processes of its own, in turn. Memory is the
most that the process ever had resident (`ru_maxrss`), less what it had before the model was built.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
from typing import Any

from bench.compiled import ours
from bench.pairs import Row, seconds, show

VOCAB, LAYERS, HEADS, BATCH, T, STEPS, TURNS = 50257, 12, 12, 4, 64, 4, 2


def resident() -> float:
    """The most memory so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def side(name: str) -> dict[str, Any]:
    """Measure one side, in this process."""
    if name == "ours":
        from bench.compiled.gpt import build, by_chainrule
        from chainrule.models.gpt import GPTConfig

        before = resident()
        model, x, y = build(GPTConfig.gpt2(VOCAB, T), BATCH, T)
        step = by_chainrule(model, x, y)
    else:
        import numpy as np
        import torch

        from bench.compiled.gpt_peers import torch_step

        before = resident()
        rng = np.random.default_rng(0)
        data = rng.integers(0, VOCAB, (BATCH, T + 1))
        step = torch_step(fresh(rng), data[:, :-1], data[:, 1:], LAYERS, HEADS)
        torch.set_num_threads(1)
    step()
    times = [seconds(step) for _ in range(STEPS)]
    return {"seconds": times, "memory": resident() - before}


def fresh(rng: Any) -> dict[str, Any]:
    """Weights of GPT-2's shapes by `GPT`'s names, without building that model."""
    import numpy as np

    C = 768
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (VOCAB, C), "wpe.weight": (T, C)}
    for i in range(LAYERS):
        for name, rows, columns in (
            ("attn.qkv", 3 * C, C), ("attn.proj", C, C), ("mlp.fc1", 4 * C, C),
            ("mlp.fc2", C, 4 * C),
        ):  # fmt: skip
            shapes[f"blocks.{i}.{name}.weight"] = (rows, columns)
            shapes[f"blocks.{i}.{name}.bias"] = (rows,)
        for name in ("norm_1", "norm_2"):
            shapes |= {f"blocks.{i}.{name}.{w}": (C,) for w in ("weight", "bias")}
    shapes |= {f"final_norm.{w}": (C,) for w in ("weight", "bias")}
    std = np.float32(0.02)
    return {n: std * rng.standard_normal(s, dtype=np.float32) for n, s in shapes.items()}


def run() -> list[Row]:
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "PyTorch eager": []}
    for _ in range(TURNS):
        for name, answers in found.items():
            call = [sys.executable, "-m", "bench.compiled.gpt2", name]
            done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
            answers.append(json.loads(done.stdout.splitlines()[-1]))
    times = [
        statistics.median([s for a in answers for s in a["seconds"]]) for answers in found.values()
    ]
    memory = [max([a["memory"] for a in answers]) for answers in found.values()]
    what = f"GPT-2 124 M: {ours.NAME} / PyTorch eager"
    return [
        Row(f"{what}, time", *map(show, times), f"{times[0] / times[1]:.2f}", "≤ 0.83"),
        Row(
            f"{what}, peak memory", *[f"{m:.2f} GiB" for m in memory],
            f"{memory[0] / memory[1]:.2f}", "≤ 1.00",
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(side(sys.argv[1])))
