"""How long the verifier has worked: what limits are about, so that a busy machine finds as much.

Of the time that has passed and the processor time that was spent, the shorter one counts. The load
of others slows everything down and costs no processor time; several threads at once spend more of
it than time passes.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import final

IDLE = 4.0
"""What waits, or is kept waiting, is given up when so many times as much time has passed."""


@final
class Stopwatch:
    """Seconds of work since it was made: by this process and the copies of it that have ended, or
    by one copy.

    Args:
        child: The number of a process of ours that is still running; None for this one.
    """

    def __init__(self, child: int | None = None) -> None:
        self._child = child
        self._begun = perf_counter()
        self._spent = _spent(child)

    @property
    def passed(self) -> float:
        """Seconds that have passed."""
        return perf_counter() - self._begun

    @property
    def seconds(self) -> float:
        """Seconds of work."""
        return min(self.passed, _spent(self._child) - self._spent)

    def left(self, limit: float) -> float:
        """Seconds of work that are left of `limit`; 0 as well if far more time has passed."""
        return max(0.0, limit - self.seconds) if self.passed < IDLE * limit else 0.0

    def is_over(self, limit: float) -> bool:
        """Whether nothing is left of `limit` seconds."""
        return self.left(limit) == 0.0


class OverlongError(Exception):
    """Code has taken longer than it may."""


@contextmanager
def interrupted_after(seconds: float) -> Generator[None]:
    """Within it, code that takes more processor time raises `OverlongError`: a loop that a change
    of the code has made endless, say. Other threads than the first one, and systems without such
    a timer, have no limit; nor is 0 one.
    """
    is_first = threading.current_thread() is threading.main_thread()
    if not is_first or not hasattr(signal, "setitimer"):
        yield
        return
    old = signal.signal(signal.SIGVTALRM, _interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)  # It may catch the first one.
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)


def _interrupt(*_: object) -> None:
    raise OverlongError


def _spent(child: int | None) -> float:
    """Processor time of a process and of its children that have ended, in seconds."""
    if child is None:
        ended = os.times()
        return process_time() + ended.children_user + ended.children_system
    # Fields 14 to 17 of proc(5)'s stat: utime, stime, cutime, cstime; the second one, a name in
    # parentheses, may hold spaces.
    fields = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
