"""How long does it take to compile a training step, with an empty cache and with a full one?

Seconds of the processor that the first call takes beyond a later one, each in a process of its own:
the least of three. Tracing is part of it; imports are not, but for those that compiling wants, of
modules whose bytecode Python has kept; nor is the system's time, in which it hands out the memory
of a large step. The ratio is that of a full cache to an empty one; the aims are for an empty one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from resource import RUSAGE_SELF, getrusage
from typing import Any

from bench.compiled import ours
from bench.pairs import Row, show

TURNS = 3
AIMS = {"microgpt": "≤ 0.6 s", "MLP": "", "6-layer GPT": "≤ 2 s", "12-layer GPT-2": "≤ 3.2 s"}


def microgpt() -> Callable[[], Any]:
    """One step on a name, of any length."""
    import numpy as np

    import chainrule as cr
    from bench.compiled.documents import BETAS, BLOCK, EPS, VOCAB
    from chainrule import optim
    from chainrule.models.gpt import GPT, GPTConfig, generator_draw

    model = GPT(GPTConfig.microgpt(VOCAB, BLOCK), draw=generator_draw(cr.Generator(0)))
    adam = optim.Adam(model.parameters(), lr=0.01, betas=BETAS, eps=EPS)

    def step(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    call = ours.compiled(step, dynamic={"tokens": ("T",), "targets": ("T",)})
    name = np.random.default_rng(0).integers(0, VOCAB, 9)
    tokens, targets = cr.asarray(name[:-1].copy()), cr.asarray(name[1:].copy())
    return lambda: call(tokens, targets)


def mlp() -> Callable[[], Any]:
    """One step of `bench.compiled.mlp`."""
    import numpy as np

    import chainrule as cr
    from bench.compiled.mlp import BATCH, SIZES, by_chainrule
    from chainrule.models.mlp import MLP

    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, SIZES[0]), dtype=np.float32)
    model = MLP(SIZES, generator=cr.Generator(0))
    return by_chainrule(model, x, rng.integers(0, SIZES[-1], BATCH))


def gpt(layers: int) -> Callable[[], Any]:
    """One step of `bench.compiled.gpt`, or of `gpt2`."""
    from bench.compiled import gpt2
    from bench.compiled.gpt import build, by_chainrule, small
    from chainrule.models.gpt import GPTConfig

    if layers == 6:
        return by_chainrule(*small())
    config = GPTConfig.gpt2(gpt2.VOCAB, gpt2.T)
    return by_chainrule(*build(config, gpt2.BATCH, gpt2.T))


STEPS: dict[str, Callable[[], Callable[[], Any]]] = {
    "microgpt": microgpt,
    "MLP": mlp,
    "6-layer GPT": lambda: gpt(6),
    "12-layer GPT-2": lambda: gpt(12),
}


def first(name: str) -> float:
    """In this process: seconds of the first call, less those of the quickest other."""
    step = STEPS[name]()
    took: list[float] = []
    for _ in range(4):
        start = getrusage(RUSAGE_SELF).ru_utime
        step()
        took.append(getrusage(RUSAGE_SELF).ru_utime - start)
    return took[0] - min(took[1:])


def asked(name: str, folder: str, bytecode: str) -> float:
    """The same in a process of its own whose cache is `folder`; Python's is `bytecode`."""
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
    done = subprocess.run(
        [sys.executable, "-m", "bench.compiled.compiling", name],
        env={**os.environ, **kept, "CHAINRULE_CACHE_DIR": folder},
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return float(json.loads(done.stdout.splitlines()[-1]))


def run() -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as bytecode:
        for name, aim in AIMS.items():
            asked(name, "", bytecode)
            cold: list[float] = []
            warm: list[float] = []
            for _ in range(TURNS):
                with tempfile.TemporaryDirectory() as folder:
                    cold.append(asked(name, folder, bytecode))
                    warm.append(asked(name, folder, bytecode))
            a, b = min(cold), min(warm)
            what = f"{name} step: empty cache / full cache"
            rows.append(Row(what, show(a), show(b), f"{b / a:.2f}", aim))
    return rows


if __name__ == "__main__":
    print(json.dumps(first(sys.argv[1])))
