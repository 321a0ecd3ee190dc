"""Workers as processes of this machine: started, watched, started again after one was killed.

They meet in a folder that only this user can read, and connect over the loopback, so nothing is
opened to the network. A signal goes to the launcher, which hands it on to each worker once. Should
the launcher be killed, its workers end by themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from chainrule.errors import OtherWorkerError, ParallelError
from chainrule.parallel.membership import Membership

PATIENCE = 10.0
"""Seconds that workers have to end by themselves when one of them has failed."""
_PERIOD = 0.05


@final
@dataclass
class Crew:
    """The workers of one attempt, and what each writes to stderr."""

    processes: list[subprocess.Popen[bytes]]
    errors: list[Path]
    order: list[int] = field(default_factory=list[int])
    """Ranks of those that have ended, in the order in which they did."""
    sent: int = 0
    """The signal that was handed on to them, 0 if none was."""

    def wait(self) -> None:
        """Wait until all have ended; soon after one has failed, the others are killed."""
        end = float("inf")
        while len(self.order) < len(self.processes):
            for rank, process in enumerate(self.processes):
                if rank not in self.order and process.poll() is not None:
                    self.order.append(rank)
                    if process.returncode:
                        end = min(end, time.monotonic() + PATIENCE)
            if time.monotonic() > end:
                self.kill()
            time.sleep(_PERIOD)

    def kill(self) -> None:
        """End those that have not ended."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()

    def send(self, number: int) -> None:
        """Send each that runs a signal."""
        self.sent = number
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    @property
    def stopped(self) -> list[int]:
        """Ranks of those that ended by the signal that was handed on to them."""
        codes = (-self.sent, 128 + self.sent) if self.sent else ()
        return [rank for rank in self.order if self.code(rank) in codes]

    @property
    def failed(self) -> list[int]:
        """Ranks of those that failed, the first one first; after them who failed with another."""
        failed = [rank for rank in self.order if self.code(rank) and rank not in self.stopped]
        return sorted(failed, key=lambda rank: self.code(rank) == OtherWorkerError.EXIT_CODE)

    def code(self, rank: int) -> int:
        """The exit code of a worker that has ended."""
        return int(self.processes[rank].returncode)

    def error(self, rank: int) -> str:
        """What a worker has written to stderr."""
        return self.errors[rank].read_text(encoding="utf-8", errors="replace").strip()


def launch(
    command: Sequence[str], workers: int, *, restarts: int = 3, announce: Callable[[str], None]
) -> int:
    """Run a command as so many workers, to the end; 128 + n if signal n was handed on to them.

    A worker that a signal has killed is a reason to start all again, at most `restarts` times;
    what the command does then is go on from its last checkpoint. `announce` is told. Raises
    `ParallelError` with the words of the worker that failed first.
    """
    for left in range(restarts, -1, -1):
        with _crew(command, workers, restarts - left) as crew:
            crew.wait()
            if not crew.failed:
                return 128 + crew.sent if crew.stopped else 0
            killed = [rank for rank in crew.failed if crew.code(rank) < 0]
            if not killed:
                raise ParallelError(_sentence(crew.error(crew.failed[0]), crew.failed[0], workers))
            what = f"worker {killed[0]} of {workers} was killed (signal {-crew.code(killed[0])})"
            if not left:
                raise ParallelError(f"{what} once more after {restarts} restarts: it is given up")
            announce(f"{what}: all start again, {left} times more at most")
    raise AssertionError("the last attempt returns or raises")


def _sentence(error: str, rank: int, workers: int) -> str:
    """What a worker says of its end, without the name of the command before it."""
    if "\n" in error or not error:
        return f"worker {rank} of {workers} failed:\n{error}"
    return error.removeprefix("chainrule: ").removesuffix(".")


@contextmanager
def _crew(command: Sequence[str], workers: int, attempt: int) -> Generator[Crew]:
    """Started workers; none is left at the end. Signals that come meanwhile are handed on."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chainrule-")))
        store = f"file:{folder / 'store'}"
        errors = [folder / f"errors-{rank}" for rank in range(workers)]
        crew = Crew([], errors)
        stack.callback(crew.kill)
        stack.enter_context(_handing_on(crew))
        for rank in range(workers):
            place = Membership(
                rank, workers, workers, store, attempt=str(attempt), parent=os.getpid()
            )
            out = None if rank == 0 else subprocess.DEVNULL
            with errors[rank].open("wb") as err:
                started = subprocess.Popen(
                    [sys.executable, *command], env={**os.environ, **place.variables()},
                    stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                )  # fmt: skip
            crew.processes.append(started)
        yield crew


@contextmanager
def _handing_on(crew: Crew) -> Generator[None]:
    """Send the first SIGINT or SIGTERM to the workers; a second one acts as it always did."""
    before: dict[int, Any] = {}

    def catch(number: int, frame: object) -> None:
        crew.send(number)
        restore()

    def restore() -> None:
        for one, handler in before.items():
            signal.signal(one, handler)

    for one in (signal.SIGINT, signal.SIGTERM):
        before[one] = signal.signal(one, catch)
    try:
        yield
    finally:
        restore()
