"""Faults: whoever cannot go on says why in the store, so that every worker's error has the cause.

The first to write wins. A worker whose connection breaks looks there; if nothing is written, its
neighbour is gone without a word, or has not come in time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any, final

from chainrule.errors import OtherWorkerError, ParallelError
from chainrule.parallel.calls import Call, difference
from chainrule.parallel.wire import LostError

GRACE = 1.0
"""Seconds in which others may write what they know."""
_PERIOD = 0.05


@final
class Board:
    """The part of the store in which the workers of one group write about faults."""

    def __init__(self, store: Any, rank: int, size: int, timeout: float) -> None:
        self._store, self._rank, self._size, self._timeout = store, rank, size, timeout

    def write(self, sentence: str) -> str:
        """Say why this worker cannot go on; what stands there, which another may have written."""
        try:
            return _text(self._store.compare_set("fault", "", sentence))
        except (RuntimeError, OSError):
            return sentence  # who served the store is gone

    def read(self, seconds: float = 0.0) -> str:
        """What a worker has written, waiting for it so long; '' if nobody has."""
        end = time.monotonic() + seconds
        with suppress(RuntimeError, OSError):
            while not self._store.check(["fault"]):
                if time.monotonic() >= end:
                    return ""
                time.sleep(_PERIOD)
            return _text(self._store.get("fault"))
        return ""

    def lost_worker_error(self, call: Call, error: LostError) -> ParallelError:
        """The error of a call in which another worker did not answer."""
        with suppress(RuntimeError, OSError):
            self._store.set(f"calls/{self._rank}", call.text)
        cause = self.read(GRACE)
        if not cause and not error.late and self._waits(error.peer):
            cause = self.read(5 * GRACE)  # it is there, and about to say whom it has waited for
        if cause:
            return OtherWorkerError(cause)
        return ParallelError(
            self.write(self._late(call) if error.late else self._loss_text(call, error.peer))
        )

    def _loss_text(self, call: Call, peer: int) -> str:
        return (
            f"worker {peer} of {self._size} is gone (its process was killed, its machine or the "
            f"network failed) while worker {self._rank} waited for it in {call.name} at "
            f"{call.line}: what was saved before is whole, go on from the last checkpoint"
        )

    def _late(self, call: Call) -> str:
        absent = [r for r in range(self._size) if r != self._rank and not self._waits(r)]
        who = ", ".join(map(str, absent[:8])) or "some"
        return (
            f"worker {who} of {self._size} did not come to {call.name} at {call.line} (call "
            f"{call.number}) within {self._timeout:g} s, and hangs or is too slow: look what it "
            "does, or give group(timeout=...) more seconds"
        )

    def _waits(self, rank: int) -> bool:
        try:
            return self._store.check([f"calls/{rank}"])
        except (RuntimeError, OSError):
            return False

    def diverged(self, call: Call, peer: int) -> ParallelError:
        """The error of a worker whose partner is about to do something else."""
        theirs = f"calls/{peer}"
        try:
            self._store.set(f"calls/{self._rank}", call.text)
            self._store.wait([theirs], timedelta(seconds=5 * GRACE))
            other = Call.from_text(_text(self._store.get(theirs)))
        except (RuntimeError, OSError):
            return ParallelError(
                f"worker {peer} does not do what worker {self._rank} does at {call.line}"
            )
        # both write the same sentence, that of the lower rank first
        (a, r), (b, q) = sorted([(call, self._rank), (other, peer)], key=lambda x: x[1])
        return ParallelError(self.write(difference(a, r, b, q)))


def watch_parent(parent: int) -> None:
    """End this process soon after its parent `parent` has ended: nobody would end it otherwise."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        sys.stderr.write(
            f"chainrule: the launcher (process {parent}) has ended, so this worker ends, too.\n"
        )
        sys.stderr.flush()
        os._exit(1)

    threading.Thread(target=watch, name="chainrule-parent", daemon=True).start()


def words(error: BaseException) -> str:
    """An error of the user's program in one line."""
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    return f"{type(error).__name__}: {' '.join(str(error).split()):.300}".rstrip(": ")


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()
