"""What workers run in the tests: `python programs.py NAME ARGS..`, one function each.

The last line that a worker prints is JSON.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import nn, optim, parallel

ROWS = 23
"""Of a batch: not even for any number of workers."""
TIMEOUT = 20.0
WIDTH = 1000
"""So that the gradients are large arrays, which workers exchange in memory that they share."""


class Net(nn.Module):
    """Two layers, in two dtypes, and a parameter that the loss does not use."""

    def __init__(self) -> None:
        generator = cr.Generator(1)
        self.a = nn.Linear(16, WIDTH, generator=generator)
        self.b = nn.Linear(WIDTH, 4, generator=generator)
        self.unused = cr.tensor(np.ones(3, np.float32), requires_grad=True)
        self.scale = cr.tensor(np.ones(4), requires_grad=True)

    def forward(self, x: Any) -> Any:
        """Shapes: (B, 16) -> (B, 4)."""
        return self.b(self.a(x).tanh()) * self.scale


def batches(steps: int) -> Iterator[tuple[Any, Any]]:
    """The same for every worker."""
    for step in range(steps):
        rng = np.random.default_rng(step)
        yield rng.normal(size=(ROWS, 16)).astype(np.float32), rng.integers(0, 4, ROWS)


def trained(group: parallel.Group, steps: int, folder: str = "", compiled: bool = False) -> Any:
    """Train, from the newest checkpoint in the folder on; losses and a digest of all states."""
    model = Net()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)

    def gradients(x: Any, y: Any) -> Any:
        loss = cr.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        return loss

    step = optimizer.step
    if compiled:
        gradients, step = cr.jit(gradients, dynamic={"x": ("B", None), "y": ("B",)}), cr.jit(step)
    found = group.resume(folder, model=model, optimizer=optimizer) if folder else {"step": 0}
    losses = list(found.get("losses", []))
    for i, batch in enumerate(batches(steps)):
        if i < found["step"]:
            continue
        if i + 1 == steps:
            wait_before_the_end()
        for x, y in group.split(batch):
            loss = gradients(x, y)
            group.add_gradients(model, weight=len(x), loss=loss)
        losses.append(group.average_gradients(model))
        step()
        if folder:
            time.sleep(float(os.environ.get("PAUSE", "0")))
            group.save(folder, i + 1, model=model, optimizer=optimizer, losses=losses)
            record_step(Path(folder), group.rank, i + 1)
    traces = [gradients.traces, step.traces] if compiled else []
    said = {"losses": losses, "digest": digest(model, optimizer)}
    return {**said, "traces": traces, "unused": model.unused.grad}


def record_step(folder: Path, rank: int, step: int) -> None:
    """Write down that this process has taken a step.

    Only rank 0 saves, so the folder may be new.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        log.write(f"{rank} {os.getpid()} {step} {time.monotonic()}\n")


def wait_before_the_end() -> None:
    """Wait until whoever kills workers lets them take their last step."""
    while (path := os.environ.get("LAST_STEP_AFTER")) and not Path(path).exists():
        time.sleep(0.02)


def digest(model: Net, optimizer: Any) -> str:
    """Of every bit that training has made."""
    states = [p.detach().numpy().tobytes() for p in model.parameters()]
    states += [str(optimizer.state_dict()).encode()]
    return hashlib.sha256(b"".join(states)).hexdigest()


def train(steps: str, compiled: str = "", folder: str = "") -> Any:
    """Train; in how many micro-batches, the environment says."""
    count = int(os.environ.get("MICRO_BATCHES", "4"))
    with parallel.group(micro_batches=count, timeout=TIMEOUT) as group:
        if os.environ.get("MEMORY") == "apart" and group._wire is not None:
            group._wire.shared = None
        return trained(group, int(steps), folder, bool(compiled))


def gpt(steps: str, compiled: str = "") -> Any:
    """Train a GPT of 10.8 million parameters on rows that no number of workers divides evenly."""
    from chainrule.models.config import GPTConfig
    from chainrule.models.gpt import GPT, generator_draw

    config = GPTConfig.gpt2(65, block_size=32, n_layer=6, n_head=6, n_embd=384)
    with parallel.group(micro_batches=4, timeout=300) as group:
        model = GPT(config, draw=generator_draw(cr.Generator(group.rank)))
        optimizer = optim.AdamW(model.parameters(), lr=3e-4)
        group.broadcast(model, optimizer)

        def gradients(x: Any, y: Any) -> Any:
            loss = model.loss(x, y)
            optimizer.zero_grad()
            loss.backward()
            return loss

        step, losses = optimizer.step, []
        if compiled:
            gradients, step = cr.jit(gradients), cr.jit(step)
        for i in range(int(steps)):
            tokens = np.random.default_rng(i).integers(0, 65, (7, 33))
            for x, y in group.split((tokens[:, :-1], tokens[:, 1:])):
                loss = gradients(x, y)
                group.add_gradients(model, weight=x.size, loss=loss)
            losses.append(group.average_gradients(model))
            step()
        said = {"losses": losses, "digest": digest(model, optimizer)}
        return {**said, "count": model.num_parameters()}


def sums(memory: str) -> Any:
    """`all_reduce` of every kind, in the order of the tree, with and without shared memory."""
    with parallel.group(timeout=TIMEOUT) as group:
        assert group._wire is not None
        assert (group._wire.shared is None) is (sys.platform != "linux")
        if memory == "apart":
            group._wire.shared = None
        rng = np.random.default_rng(group.rank)
        large = rng.normal(size=70_001).astype(np.float32) * 10.0 ** rng.integers(-9, 9, 70_001)
        small = rng.normal(size=(3, 5))
        y, z = group.all_reduce((large, cr.tensor(small)))
        kinds = group.all_reduce({"f": 0.1 * group.rank, "i": group.rank})
        most = group.all_reduce(group.rank, "max"), group.all_reduce(group.rank, "min")
        group.barrier()
        return {
            "large": hashlib.sha256(y.tobytes()).hexdigest(),
            "small": z.numpy().tolist(),
            "kinds": kinds,
            "most": most,
        }


def kept() -> Any:
    """Whether averages that worker 0 alone keeps stay as they were, each unlike the one before."""
    with parallel.group(timeout=TIMEOUT) as group:
        model = Net()
        averages: list[tuple[Any, Any]] = []
        for batch in batches(6):
            x, y = group.shard(batch)
            model.zero_grad()
            cr.cross_entropy(model(x), y).backward()
            group.average_gradients(model, weight=len(x))
            if group.is_first():
                averages.append((model.a.weight.grad, model.a.weight.grad.numpy().copy()))
        same = [(g.numpy() == copy).all() for g, copy in averages]
        unlike = [(a[1] != b[1]).any() for a, b in itertools.pairwise(averages)]
        return bool(np.all(same) and np.all(unlike))


def spread() -> Any:
    """Worker 0's states on all: weights, moments, a schedule that has begun."""
    with parallel.group(timeout=TIMEOUT) as group:
        model = Net()
        optimizer = optim.AdamW(model.parameters(), lr=0.1 * (1 + group.rank), betas=(0.8, 0.9))
        schedule = optim.Scheduler(optimizer, optim.Cosine(10))
        if group.is_first():
            (model(np.ones((2, 16), np.float32)) ** 2).sum().backward()
            optimizer.step()
            schedule.step()
        group.broadcast(model, optimizer, schedule)
        states = [model.state_dict(), optimizer.state_dict(), schedule.state_dict()]
        return hashlib.sha256(str(states).encode()).hexdigest()


# --- faults --------------------------------------------------------------------------------------


def fault(kind: str, folder: str = "") -> Any:
    """Train, while worker 1 (the last one) does something else in its third step."""
    timeout = 2.0 if kind == "hang" else TIMEOUT
    with parallel.group(timeout=timeout) as group:
        model = Net()
        last = group.rank == group.size - 1
        for step, batch in enumerate(batches(5)):
            x, y = group.shard(batch)
            if last and step == 2:
                FAULTS[kind](group, model)
            cr.cross_entropy(model(x), y).backward()
            group.average_gradients(model, weight=len(x))
            model.zero_grad()
    return "trained"


def _die(group: Any, model: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(group: Any, model: Any) -> None:
    time.sleep(600)


def _wider(group: Any, model: Any) -> None:
    model.a.weight = cr.tensor(np.ones((8, WIDTH), np.float32), requires_grad=True)
    group.average_gradients(model)


def _other_call(group: Any, model: Any) -> None:
    group.all_reduce(1.0)


def _fewer(group: Any, model: Any) -> None:
    model.unused.requires_grad_(False)


def _wrong(group: Any, model: Any) -> None:
    raise OSError(28, "No space left on device")


def _interrupt(group: Any, model: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)


def _leave(group: Any, model: Any) -> None:
    group.__exit__(None, None, None)
    sys.exit(0)


FAULTS: dict[str, Callable[[Any, Any], None]] = {
    "die": _die,
    "hang": _hang,
    "wider": _wider,
    "other call": _other_call,
    "fewer": _fewer,
    "wrong": _wrong,
    "interrupt": _interrupt,
    "leave": _leave,
}


def differing(what: str) -> Any:
    """Workers that do not fit together."""
    from chainrule.parallel import rendezvous

    last = os.environ["CHAINRULE_PARALLEL_RANK"] == "1"
    if what == "version" and last:
        rendezvous.__dict__["__version__"] = "0.0.7"
    with parallel.group(4 if what == "setting" and last else 8, timeout=TIMEOUT):
        return "met"


def absent() -> Any:
    """Worker 1 does not come to the meeting."""
    if os.environ["CHAINRULE_PARALLEL_RANK"] == "1":
        return "elsewhere"
    with parallel.group(timeout=2.0):
        return "met"


def folders(folder: str) -> Any:
    """Each worker looks into a folder of its own; only worker 1's has a checkpoint."""
    with parallel.group(timeout=TIMEOUT) as group:
        mine = Path(folder) / str(group.rank)
        if group.rank == 1:
            parallel.save(mine / "step-000004", step=4)
        group.barrier()
        return group.resume(mine)


def orphan() -> Any:
    """Train without an end."""
    with parallel.group(timeout=TIMEOUT) as group:
        print("trains", flush=True)
        while True:
            group.all_reduce(1.0)
            time.sleep(0.05)


if __name__ == "__main__":
    try:
        print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])), flush=True)
    except cr.errors.ChainruleError as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        sys.exit(3)
