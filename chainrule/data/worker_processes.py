"""Processes that make the batches of a loader, in order.

Batch k is made by process k modulo their number, so that it is known who makes it; each has a few
batches ahead of it. Before a batch the generators of the process are seeded by the loader's seed,
the epoch and k. So random numbers of examples depend neither on how many processes there are, nor
on where an epoch was continued. A process ends with the loop, and when its parent is gone.
"""

from __future__ import annotations

import multiprocessing as mp
import pickle
import random
import signal
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from chainrule.engine.provenance import HERE
from chainrule.errors import ChainruleError, ConfigError
from chainrule.random import manual_seed

_AHEAD = 2
"""Batches that each process has to make at any time."""
_PATIENCE = 1.0
"""Seconds that a process has for ending by itself."""


class WorkerError(ChainruleError, RuntimeError):
    """A process that made batches failed, or was ended from outside."""


@dataclass(frozen=True)
class Work:
    """How a batch is made: `collate` of the examples with these numbers."""

    dataset: Any
    collate: Callable[[Sequence[Any]], Any]
    seed: int
    epoch: int

    def batch(self, k: int, numbers: Sequence[int]) -> Any:
        """Batch k; raises `_FailedError` with the number of the example that failed."""
        words = np.random.SeedSequence([self.seed, self.epoch, k]).generate_state(3)
        random.seed(int(words[0]))
        np.random.seed(words[1])
        manual_seed(int(words[2]))
        examples: list[Any] = []
        for i in numbers:
            try:
                examples.append(self.dataset[i])
            except Exception as cause:
                raise _FailedError(f"example {i}", cause) from cause
        try:
            return self.collate(examples)
        except Exception as cause:
            raise _FailedError(f"the batch of examples {list(numbers)}", cause) from cause


class _FailedError(Exception):
    """What failed, where, and the words of the error."""

    def __init__(self, what: str, cause: Exception) -> None:
        frames = traceback.extract_tb(cause.__traceback__)
        outside = [f for f in frames if not f.filename.startswith(HERE)] or list(frames)
        at = outside[-1]
        self.words = (
            f"{what} at {at.filename}:{at.lineno}: {type(cause).__name__}: {cause}\n    {at.line}"
        )
        super().__init__(self.words)


def in_processes(
    work: Work, batches: Sequence[Sequence[int]], first: int, count: int
) -> Generator[Any]:
    """The batches from number `first` on, made by `count` processes."""
    team: list[_Process] = []
    try:
        for number in range(count):
            team.append(_Process(work, number))
        sent = first
        for k in range(first, len(batches)):
            while sent < min(k + count * _AHEAD, len(batches)):
                team[sent % count].ask(sent, batches[sent])
                sent += 1
            yield team[k % count].answer(k, batches[k])
    finally:
        for process in team:
            process.leave()
        for process in team:
            process.end()


class _Process:
    """A process, and the pipe to it."""

    def __init__(self, work: Work, number: int) -> None:
        self.number = number
        self.pipe, other = mp.Pipe()
        self.process = mp.Process(
            target=_serve, args=(work, other), name=f"DataLoader worker {number}", daemon=True
        )
        try:
            self.process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as cause:
            raise ConfigError(
                f"DataLoader: the dataset or collate_fn cannot be sent to a process ({cause}): "
                "define its classes and functions at the top of a module, or let threads make the "
                "batches, with workers="
            ) from cause
        finally:
            other.close()

    def ask(self, k: int, numbers: Sequence[int]) -> None:
        """Let it make a batch."""
        with suppress(OSError):  # it is gone: `answer` says so
            self.pipe.send((k, [int(i) for i in numbers]))

    def answer(self, k: int, numbers: Sequence[int]) -> Any:
        """Batch k, once it is there."""
        wait([self.pipe, self.process.sentinel])
        try:
            made, failed = self.pipe.recv() if self.pipe.poll() else (None, "")
        except (EOFError, OSError):
            made, failed = None, ""
        if failed is None:
            return made
        if failed:
            raise WorkerError(f"DataLoader: worker {self.number} failed on {failed}")
        self.process.join(_PATIENCE)
        raise WorkerError(
            f"DataLoader: worker {self.number} ended with exit code {self.process.exitcode} before "
            f"it made batch {k}, of examples {[int(i) for i in numbers]}: it was killed, perhaps "
            "for want of memory, or crashed in native code; num_workers=0 makes the batches here"
        )

    def leave(self) -> None:
        """Let it end: where it was forked, it would not notice that the pipe is closed."""
        with suppress(OSError):
            self.pipe.send(None)
        self.pipe.close()

    def end(self) -> None:
        """Wait until it has ended, and see to it."""
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _serve(work: Work, pipe: Connection) -> None:
    """What a process does: make what it is asked for, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    parent = mp.parent_process()
    assert parent is not None
    try:
        while True:
            ready = wait([pipe, parent.sentinel])
            if parent.sentinel in ready:
                return
            asked = pipe.recv()
            if asked is None:
                return
            k, numbers = asked
            try:
                pipe.send((work.batch(k, numbers), None))
            except _FailedError as failed:
                pipe.send((None, failed.words))
    except (EOFError, OSError):
        return  # the loop has ended
