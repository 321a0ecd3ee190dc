"""Limits are of work: what others do on the machine, and several threads at once, do not count."""

import contextlib
import signal
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from chainrule.verify.repair.problem import Problem
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.stopwatch import IDLE, OverlongError, Stopwatch, interrupted_after


def work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_work_counts_and_waiting_does_not() -> None:
    watch = Stopwatch()
    time.sleep(0.2)
    assert watch.seconds < 0.1 <= watch.passed
    assert not watch.is_over(0.15)
    work(0.2)
    assert watch.seconds >= 0.19
    assert watch.is_over(0.15)
    assert watch.left(10.0) == pytest.approx(9.8, abs=0.1)


def test_what_only_waits_is_given_up_in_the_end() -> None:
    watch = Stopwatch()
    time.sleep(IDLE * 0.02)
    assert watch.is_over(0.02)


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
def test_the_work_of_a_copy_counts_in_the_process_that_waits_for_it() -> None:
    watch = Stopwatch()
    in_copy(lambda: work(0.3))
    assert watch.seconds >= 0.25


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
@pytest.mark.parametrize("busy", [work, time.sleep], ids=["works", "waits"])
def test_a_copy_is_given_up(busy: Callable[[float], None]) -> None:
    with pytest.raises(LostError, match="longer than"):
        in_copy(lambda: busy(60.0), patience=0.3)


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
def test_a_copy_that_is_kept_waiting_is_not() -> None:
    """As where others take the processor: more time passes than it may take, and it does little."""

    def halting() -> str:
        time.sleep(0.6)
        return "done"

    assert in_copy(halting, patience=0.4) == "done"


def test_code_that_takes_too_long_is_interrupted() -> None:
    rows = list[int]()
    with pytest.raises(OverlongError), interrupted_after(0.05):
        while True:
            rows.append(0)
    with interrupted_after(0.05), contextlib.suppress(ValueError):
        raise ValueError
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_changed_code_that_takes_much_longer_than_the_users_is_no_version() -> None:
    def endless(_: Any) -> Any:
        while True:
            pass

    nothing: Any = None
    posed = Problem(nothing, nothing, [], stop=time.process_time() + 1)
    quick: Any = SimpleNamespace(run=lambda _: (1,))
    slow: Any = SimpleNamespace(run=endless)
    assert posed.run(nothing, quick) == (1,) and not posed.over
    assert posed.run(nothing, slow) is None and posed.over
