"""Workers that are killed at random moments, in a network that has nothing but a loopback.

A worker writes a line after each step: rank, process, step, seconds. Who kills reads them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.parallel.running import PATIENCE, ROOT, environment

OUTPUT = "output.txt"
"""What a command writes: nobody reads a pipe meanwhile, and a full one would stop its processes."""
MAY_END = "may-end"
"""A file without which no worker takes its last step."""


class Line(NamedTuple):
    """A step that a worker has taken."""

    rank: int
    process: int
    step: int
    at: float


@cache
def why_no_network() -> str:
    """Why no network namespace can be made here; '' if one can."""
    if sys.platform != "linux":
        return "only Linux has network namespaces"
    done = subprocess.run(
        ["unshare", "--net", "ip", "link", "set", "lo", "up"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else f"no network namespace: {done.stderr.decode()}"


@contextmanager
def apart(command: list[str], folder: Path, **more: str) -> Iterator[Running]:
    """Run a command in a network namespace with a loopback only, and a home of its own.

    Its workers take their last step after `finish`. None of its processes is left.
    """
    if why_no_network():
        pytest.skip(why_no_network())
    script = 'ip link set lo up && exec "$0" "$@"'
    folders = {"HOME": str(folder), "TMPDIR": str(folder), "LAST_STEP_AFTER": str(folder / MAY_END)}
    with (folder / OUTPUT).open("wb") as output:
        running = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", script, *command],
            env=environment(PYTHONWARNINGS="default", **folders, **more),
            cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        yield Running(running, folder)
    finally:
        end(running)


def lines(log: Path) -> list[Line]:
    """What workers have written so far."""
    if not log.exists():
        return []
    rows = [row.split() for row in log.read_text(encoding="utf-8").splitlines()]
    return [Line(int(r), int(p), int(s), float(t)) for r, p, s, t in rows]


def kill_at_random(
    running: Running, log: Path, kills: int, seed: int, size: int = 2
) -> list[float]:
    """Kill a random worker again and again; how long each time until the next step was taken."""
    rng = random.Random(seed)
    dead: set[int] = set()
    delays: list[float] = []
    while len(delays) < kills:
        fresh = _wait(running, log, dead, size)
        time.sleep(rng.random() * 0.4)
        victim = rng.choice([line.process for line in fresh])
        killed = time.monotonic()
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            raise AssertionError(f"a worker ended by itself: {running.output}") from None
        dead |= {line.process for line in lines(log)}
        delays.append(min([line.at for line in _wait(running, log, dead, size)]) - killed)
    return delays


def _wait(running: Running, log: Path, dead: set[int], size: int) -> list[Line]:
    """The first step of each worker of a new attempt."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        fresh = {line.rank: line for line in reversed(lines(log)) if line.process not in dead}
        if len(fresh) == size:
            return list(fresh.values())
        assert running.process.poll() is None, running.output
        time.sleep(0.02)
    raise AssertionError(f"no step in time: {running.output}")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a command and all its processes, if it runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Running(NamedTuple):
    """A command that runs, and the folder that is its home."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def output(self) -> str:
        """What it has written so far."""
        return (self.folder / OUTPUT).read_text(encoding="utf-8", errors="replace")

    def wait(self) -> tuple[int, str]:
        """Wait for its end; its exit code, and what it wrote."""
        try:
            return self.process.wait(PATIENCE), self.output
        except subprocess.TimeoutExpired:
            raise AssertionError(self.output) from None

    def finish(self) -> str:
        """Let its workers end; what it wrote, after it has ended well."""
        (self.folder / MAY_END).touch()
        code, out = self.wait()
        assert code == 0, out
        return out
