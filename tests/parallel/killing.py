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

from parallel.running import PATIENCE, ROOT, environment

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
def apart(command: list[str], folder: Path, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a network namespace with a loopback only, and a home of its own.

    Its workers take their last step after `finish` was called. None of its processes is left.
    """
    if why_no_network():
        pytest.skip(why_no_network())
    script = 'ip link set lo up && exec "$0" "$@"'
    folders = {"HOME": str(folder), "TMPDIR": str(folder), "LAST_STEP_AFTER": str(folder / MAY_END)}
    running = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", script, *command],
        env=environment(PYTHONWARNINGS="default", **folders, **more),
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        start_new_session=True,
    )  # fmt: skip
    try:
        yield running
    finally:
        output_of(running)


def lines(log: Path) -> list[Line]:
    """What workers have written so far."""
    if not log.exists():
        return []
    rows = [row.split() for row in log.read_text(encoding="utf-8").splitlines()]
    return [Line(int(r), int(p), int(s), float(t)) for r, p, s, t in rows]


def kill_at_random(
    running: subprocess.Popen[str], log: Path, kills: int, seed: int, size: int = 2
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
            raise AssertionError(f"a worker ended by itself: {output_of(running)}") from None
        dead |= {line.process for line in lines(log)}
        delays.append(min([line.at for line in _wait(running, log, dead, size)]) - killed)
    return delays


def _wait(running: subprocess.Popen[str], log: Path, dead: set[int], size: int) -> list[Line]:
    """The first step of each worker of a new attempt."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        fresh = {line.rank: line for line in reversed(lines(log)) if line.process not in dead}
        if len(fresh) == size:
            return list(fresh.values())
        assert running.poll() is None, output_of(running)
        time.sleep(0.02)
    raise AssertionError(f"no step in time: {output_of(running)}")


def output_of(running: subprocess.Popen[str]) -> str:
    """What is left of a command's output, after all its processes were ended."""
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
    return "" if running.stdout is None or running.stdout.closed else running.communicate()[0]


def finish(running: subprocess.Popen[str], folder: Path) -> str:
    """Let its workers end; what it wrote, after it has ended well."""
    (folder / MAY_END).touch()
    try:
        out, _ = running.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise AssertionError(output_of(running)) from None
    assert running.returncode == 0, out
    return out
