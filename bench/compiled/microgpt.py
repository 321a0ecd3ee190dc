"""How long does a compiled training step of microgpt take, beside frameworks and code by hand?

float32, one document a step, Adam: the first 1,000 steps of the reference run, documents of
different lengths. Every program must give the reference's losses. A block is the whole run;
starting it over is not timed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import chainrule as cr
from bench.compiled import microgpt_c, microgpt_jax, microgpt_numpy, microgpt_torch, ours
from bench.compiled.documents import BETAS, BLOCK, EPS, VOCAB, Run, reference
from bench.compiled.race import Runner, compiling, race, table
from bench.pairs import Row
from chainrule import optim
from chainrule.models.gpt import GPT, GPTConfig

STEPS, TOLERANCE = 1000, 2e-3
"""float32 drifts from the float64 reference over 1,000 steps; a wrong step is off by far more."""


def by_chainrule(run: Run) -> list[Runner]:
    """The whole run, a call a step and as one call; each length of a document is the same code."""
    left = iter(run.weights.values())
    model = GPT(GPTConfig.microgpt(VOCAB, BLOCK), draw=lambda shape, std: next(left))
    adam = optim.Adam(model.parameters(), lr=0.01, betas=BETAS, eps=EPS)
    first, blank = model.state_dict(), adam.state_dict()
    first = {name: x.numpy().copy() for name, x in first.items()}

    def step(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    call = ours.compiled(step, dynamic={"tokens": ("T",), "targets": ("T",)})
    documents = [(cr.asarray(d[:-1]), cr.asarray(d[1:]), r) for d, r in
                 zip(run.documents, run.rates, strict=True)]  # fmt: skip

    def batches() -> Iterator[tuple[Any, Any]]:
        for tokens, targets, rate in documents:
            adam.param_groups[0]["lr"] = rate
            yield tokens, targets

    def go() -> list[float]:
        return [x.item() for x in [call(*batch) for batch in batches()]]

    def at_once() -> list[float]:
        return call.loop(batches()).tolist()

    def reset() -> None:
        model.load_state_dict(first)
        adam.load_state_dict(blank)

    return [
        Runner(ours.NAME, go, reset, runs=20),
        Runner(f"{ours.NAME}, 1,000 steps in one loop", at_once, reset, runs=20),
    ]


def by_hand(run: Run) -> list[Runner]:
    go, reset = microgpt_numpy.by_step(run)
    runners = [Runner("NumPy by hand", go, reset)]
    for flags, word in ((microgpt_c.STRICT, ""), (microgpt_c.FAST, ", -ffast-math")):
        lib = microgpt_c.build(flags)
        if lib is not None:
            again = lambda lib=lib: microgpt_c.reset(lib, run)
            for f, how in (
                (microgpt_c.by_step(lib, run), "a call a step"),
                (microgpt_c.at_once(lib, run), "1,000 steps in a call"),
            ):
                runners.append(Runner(f"C by hand, AVX-512{word}, {how}", f, again, runs=20))
    return runners


def by_frameworks(run: Run) -> list[Runner]:
    eager = microgpt_torch.eager(run)
    runners = [Runner("PyTorch eager", eager, eager.reset)]
    for dynamic, word in ((True, "dynamic"), (False, "padded")):
        training = microgpt_torch.compiled(run, dynamic=dynamic)
        if training is not None:
            note = compiling(training)
            runners.append(Runner(f"torch.compile, {word}", training, training.reset, note=note))
    for name, make in (
        ("JAX jit, padded", microgpt_jax.by_step),
        ("JAX, 1,000 steps in one scan", microgpt_jax.at_once),
    ):
        f = make(run)
        runners.append(Runner(name, f, note=compiling(f)))
    return runners


def check(runners: list[Runner], run: Run) -> None:
    """Each program gives the reference's losses, or the benchmark ends."""
    for r in runners:
        r.before()
        off = np.abs(np.array(r.run()) - run.losses).max()
        if not off <= TOLERANCE:
            raise AssertionError(f"{r.name}: a loss is {off:.2g} from the reference")


def run() -> list[Row]:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    work = reference(STEPS)
    runners = [*by_chainrule(work), *by_frameworks(work), *by_hand(work)]
    check(runners, work)
    times = race(runners, blocks=5, runs=1)
    at_once = runners[1].name
    return [
        *table("microgpt step", runners, times, "< 1.00", per=STEPS),
        *table("microgpt step", runners, times, "< 1.00", per=STEPS, name=at_once),
    ]
