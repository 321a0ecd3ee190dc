"""What does it cost a PyTorch training script to be observed by `chainrule verify`?

Processor time of the steps of a training loop, observed and not, in turn, medians; a fresh model
each time, so that step k is compared with step k. The second step is the one whose calls are
recorded. An evaluation is a loop over a test set between two steps. Takes about three minutes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.pairs import Row, row
from chainrule.verify.patches import Patches
from chainrule.verify.script.clock import Steps, watch_torch
from chainrule.verify.script.observers import TORCH
from chainrule.verify.script.session import Session

OBSERVED = 4
"""Steps that are observed, where the report does not matter."""
AFTER = 12
"""Steps after the report."""
OTHER = 0.7
"""Seconds of other work, about as long as a report takes."""
NAMES = ("the first step", "the recorded step", "the third step", "the fourth step")


class Block(nn.Module):
    """A layer of a transformer, written as in nanoGPT."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.ones(context, context, dtype=torch.bool).tril())

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) to the same."""
        b, t, c = x.shape
        heads = [
            part.view(b, t, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm(x)).split(c, dim=2)
        ]
        q, k, v = heads
        scores = (q @ k.transpose(-2, -1)) * k.shape[-1] ** -0.5
        scores = scores.masked_fill(~self.get_buffer("mask")[:t, :t], float("-inf"))
        mixed = functional.softmax(scores, dim=-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, c))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """About 107,000 parameters, by default."""

    def __init__(self, vocabulary: int = 65, context: int = 32, width: int = 64) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, 4, context) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T) tokens to logits (B, V, T)."""
        h = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)).transpose(1, 2)


def mlp() -> tuple[nn.Module, Tensor, Tensor]:
    """784 numbers to 10 classes, 64 examples."""
    layers = (nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    return nn.Sequential(*layers), torch.randn(64, 784), torch.randint(10, (64,))


def convolutions() -> tuple[nn.Module, Tensor, Tensor]:
    """Images of 28 × 28 to 10 classes, 32 examples, with batch norm."""
    layers = (
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 7 * 7, 10)),
    )
    return nn.Sequential(*layers), torch.randn(32, 1, 28, 28), torch.randint(10, (32,))


def gpt() -> tuple[nn.Module, Tensor, Tensor]:
    """8 sequences of 32 tokens."""
    return GPT(), torch.randint(65, (8, 32)), torch.randint(65, (8, 32))


PROGRAMS: dict[str, Callable[[], tuple[nn.Module, Tensor, Tensor]]] = {
    "MLP": mlp,
    "conv net": convolutions,
    "GPT": gpt,
}


class Observed:
    """Within it, a program is observed as `chainrule verify` does, without a report."""

    def __enter__(self) -> None:
        self._observers = [o for make in TORCH for o in make()]
        self._patches = Patches()
        watch_torch(Steps(self._done), self._patches)
        for observer in self._observers:
            observer.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None
    ) -> None:
        for observer in reversed(self._observers):
            observer.stop()
        self._patches.undo()

    def _done(self, step: int) -> None:
        for observer in self._observers:
            observer.step_done(step)


def other_work() -> None:
    """Work that has nothing to do with the training, as a report has not: after it the processor's
    caches hold nothing of the model, whoever did it."""
    matrix = np.random.default_rng(0).standard_normal((120, 120))
    until = time.process_time() + OTHER
    while time.process_time() < until:
        np.linalg.svd(matrix)
        sorted({str(n): n for n in range(20_000)})


class Reported:
    """Within it, a program is observed for three steps and reported on."""

    def __enter__(self) -> None:
        self._session = Session("bench", 3, lambda report: None, torch=TORCH)
        self._session.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None
    ) -> None:
        self._session.finish()


@dataclass(frozen=True)
class Times:
    """Seconds of processor time of each step, and of each evaluation between two steps."""

    steps: list[float]
    evaluations: list[float]


def trained(
    make: Callable[[], tuple[nn.Module, Tensor, Tensor]],
    steps: int,
    within: AbstractContextManager[object],
    evaluates: bool = False,
    pauses: bool = False,
) -> Times:
    """A training loop, its steps timed; if it `pauses`, other work is done after the third one."""
    cast(Any, torch).manual_seed(0)
    times = Times([], [])
    with within:
        model, x, target = make()
        optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step() -> None:
            loss: Any = functional.cross_entropy(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        def evaluation() -> None:
            model.eval()
            with torch.no_grad():
                for _ in range(20):
                    functional.cross_entropy(model(x), target).item()
            model.train()

        for _ in range(steps):
            if pauses and len(times.steps) == 3:
                other_work()
            times.steps.append(_seconds(step))
            if evaluates:
                times.evaluations.append(_seconds(evaluation))
    return times


def _seconds(f: Callable[[], None]) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


def compared(
    make: Callable[[], tuple[nn.Module, Tensor, Tensor]],
    steps: int,
    within: Callable[[], AbstractContextManager[object]],
    rounds: int,
    evaluates: bool = False,
) -> tuple[Sequence[Times], Sequence[Times]]:
    """Observed and not, in turn; the first round is not counted."""
    mine: list[Times] = []
    theirs: list[Times] = []
    for _ in range(rounds + 1):
        mine.append(trained(make, steps, within(), evaluates))
        theirs.append(trained(make, steps, nullcontext(), evaluates))
    return mine[1:], theirs[1:]


def _median(rounds: Sequence[Times], step: int) -> float:
    return statistics.median([r.steps[step] for r in rounds])


def while_observed(name: str, rounds: int = 40) -> list[Row]:
    """The steps that are observed."""
    on, off = compared(PROGRAMS[name], OBSERVED, Observed, rounds)
    aims = ("≤ 1.3", "≤ 2", "≤ 1.3", "≤ 1.3")
    return [
        row(f"{name}, {title}", _median(on, k), _median(off, k), aim)
        for k, (title, aim) in enumerate(zip(NAMES, aims, strict=True))
    ]


def between(name: str, rounds: int = 6) -> list[Row]:
    """Evaluations between the steps that are observed, all alike."""
    on, off = compared(PROGRAMS[name], OBSERVED, Observed, rounds, evaluates=True)
    mine, theirs = (
        statistics.median([s for r in some for s in r.evaluations]) for some in (on, off)
    )
    return [row(f"{name}, an evaluation of 20 batches", mine, theirs, "≤ 1.05", per=20)]


def afterwards(name: str, rounds: int = 5) -> list[Row]:
    """The step after the report, and those that follow."""
    on, off = compared(PROGRAMS[name], 3 + AFTER, Reported, rounds)
    later = [statistics.median([s for r in some for s in r.steps[4:]]) for some in (on, off)]
    paused = [trained(PROGRAMS[name], 4, nullcontext(), pauses=True) for _ in range(rounds + 1)][1:]
    after, plain, other = _median(on, 3), _median(off, 3), _median(paused, 3)
    return [
        row(f"{name}, the step after the report", after, plain, ""),
        row(f"{name}, the same beside one after other work", after, other, "≤ 1.1"),
        row(f"{name}, later steps", later[0], later[1], "1.0"),
    ]


def run() -> list[Row]:
    torch.set_num_threads(1)
    rows: list[Row] = []
    for name in PROGRAMS:
        rows += while_observed(name) + between(name) + afterwards(name)
    return rows


if __name__ == "__main__":
    for line in run():
        print(
            f"| {line.what} | {line.ours} | {line.peer} | {line.ratio} | {line.aim} |", flush=True
        )
