"""Signals get through to compiled code that goes on for long, and leave a whole number of steps.

A process of its own is sent signals at random times. The bound of the time is for a busy machine;
`python -m bench.interrupts` measures it on a quiet one.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import chainrule as cr
from tests.compile.runtime.interrupted import CASES, AskedError, endless
from tests.sampling import sampled

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")
BOUND = 5.0
"""Seconds; a program that takes no notice goes on for ever."""
SEED = random.SystemRandom().randrange(1 << 30)
CHILD = Path(__file__).with_name("interrupted.py")


@pytest.fixture(scope="module")
def child() -> Iterator[Any]:
    """The process that runs cases."""
    root = str(CHILD.parents[3])
    with subprocess.Popen(
        [sys.executable, str(CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={**os.environ, "PYTHONPATH": root},
    ) as process:
        yield process
        process.kill()


@contextmanager
def patient(child: Any) -> Generator[None]:
    """Within it, a process that takes no notice of a signal is ended after a while."""
    timer = threading.Timer(10 * BOUND, child.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@sampled(one_in=3)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", CASES)
def test_a_signal_ends_it_and_state_is_that_of_whole_steps(name: str, number: int, child: Any):
    rng = random.Random(f"{SEED} {name} {number}")
    pause = rng.uniform(0.02, 0.3)
    print(f"seed {SEED}: {name} gets signal {number} after {pause:.3f} s")
    child.stdin.write(f"{name} {int(number)}\n")
    assert child.stdout.readline() == "ready\n"
    time.sleep(pause)
    sent = time.perf_counter()
    child.send_signal(number)
    with patient(child):
        assert child.stdout.readline() == "through\n"
    assert time.perf_counter() - sent < BOUND
    assert child.stdout.readline() == "fine\n"


def test_a_handler_that_raises_nothing_runs_and_the_program_goes_on():
    f, seen = endless(), list[int]()

    def handler(number: int, frame: Any) -> None:
        seen.append(number)
        if len(seen) == 3:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise AskedError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with pytest.raises(AskedError):
            f(cr.tensor(1.0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) == 3


def test_what_is_not_the_main_thread_installs_no_handler():
    f = endless()
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(f(cr.tensor(-1.0)).item()))
    thread.start()
    thread.join()
    assert found == [-1.0]
    assert before == {n: signal.getsignal(n) for n in before}
