"""Copies of the process: for work that cannot touch the script, or in which the script goes on.

Checking a gradient runs the user's code again, many times: it may count its calls, draw from a
generator that only it knows, or crash. A forked copy shares the values without copying them, and
whatever happens in it ends with it. Where a process cannot be copied (no fork, or an accelerator
in use) the work is done here, as calmly as possible.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import stat
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from chainrule.errors import ChainruleError
from chainrule.verify.script.sandbox.quiet import calm, confine, copying, is_confined
from chainrule.verify.stopwatch import Stopwatch

_T = TypeVar("_T")

PATIENCE = 600.0
"""Seconds of work after which what does not end is given up."""
_LOOK = 0.1
"""Seconds between two looks at how long a copy has worked."""


class LostError(ChainruleError, RuntimeError):
    """The copy of the process ended without a result; the message says how."""


def in_copy(work: Callable[[], _T], patience: float = PATIENCE) -> _T:
    """What `work()` returns (values that can be pickled), computed in a copy of this process.

    Raises:
        LostError: If it raised, crashed, or worked for longer than `patience` seconds.
    """
    if not can_fork():
        with calm():
            try:
                return work()
            except Exception as error:
                raise LostError(_describe(error)) from error
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads at every fork
        child = os.fork()
    if child == 0:
        os.close(read)
        _copy(work, write)
    os.close(write)
    return receive(child, read, patience)


def in_confined_copy(work: Callable[[], _T], patience: float = PATIENCE) -> _T:
    """The same for functions of the user's that the script may not call so, or never: what writes,
    connects or starts something is refused.

    Raises:
        LostError: As `in_copy`, and where no copy can be made.
    """
    if not can_fork():
        raise LostError("this process cannot be copied")

    def confined() -> _T:
        confine()
        return work()

    return in_copy(confined, patience)


def can_fork() -> bool:
    """Whether a copy of this process could compute what this process can."""
    if is_confined() or not sys.platform.startswith("linux"):
        return False
    torch: Any = sys.modules.get("torch")
    return torch is None or not hasattr(torch, "cuda") or not torch.accelerator.is_available()


def _copy(work: Callable[[], Any], write: int) -> None:
    """The life of the copy: work, send, end without any of the script's clean-up."""
    code = 1
    try:
        settle()
        with calm():
            try:
                result: tuple[bool, Any] = (True, work())
            except Exception as error:
                result = (False, _describe(error))
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(result, pipe, protocol=pickle.HIGHEST_PROTOCOL)
        code = 0
    finally:
        os._exit(code)


def settle() -> None:
    """In a copy: it reads and says nothing, ends when it is told to, and has one thread."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # its pool of threads was not copied


def receive(child: int, read: int, patience: float) -> Any:
    """What a copy sends; it is waited for.

    Raises:
        LostError: If it sends that it failed, ends without a word, or takes longer.
    """
    chunks: list[bytes] = []
    work = Stopwatch(child)
    late = False
    try:
        while not late:
            if not select.select([read], [], [], _LOOK)[0]:
                late = work.is_over(patience)
                continue
            chunk = os.read(read, 1 << 20)
            if not chunk:
                break
            chunks.append(chunk)
    except BaseException:  # interrupted: the copy is of no use any more
        late = True
        raise
    finally:
        os.close(read)
        if late:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if late:
        raise LostError(f"it took longer than {patience:.0f} s and was given up")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        raise LostError(f"the process that ran it was ended by {name}")
    if not chunks:
        raise LostError("the process that ran it ended without a result")
    fine, value = pickle.loads(b"".join(chunks))
    if not fine:
        raise LostError(value)
    return value


def _describe(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


HERE: Final = object()
"""What `branch_off` gives in the copy."""

_before: set[threading.Thread | str] = set()
"""Threads and processes that are none of the script's."""
_pipe: list[int] = []
"""Where this process sends what it has seen, if it is such a copy."""


def begin() -> None:
    """The script begins: the threads and processes that there are now are none of its own."""
    _before.clear()
    _before.update(_threads_and_children())


def branch_off(patience: float) -> Any:
    """`HERE` in a copy of this process, which goes on from here; what the copy sent in this one.

    Raises:
        LostError: If it sent nothing within `patience` seconds.
    """
    read, write = os.pipe()
    places = _read_positions()
    with warnings.catch_warnings(), copying():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads at every fork
        child = os.fork()
    if child == 0:
        os.close(read)
        settle()
        confine()
        _pipe[:] = [write]
        return HERE
    os.close(write)
    try:
        return receive(child, read, patience)
    finally:
        for fd, at in places.items():  # which both processes share
            os.lseek(fd, at, os.SEEK_SET)


def is_branch() -> bool:
    """Whether this process is such a copy."""
    return bool(_pipe)


def send(value: Any) -> NoReturn:
    """Send what this copy has seen, and end it, without any of the script's clean-up."""
    try:
        with os.fdopen(_pipe[0], "wb") as pipe:
            pickle.dump((True, value), pipe, protocol=pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)


_last: list[Callable[[], object]] = []


def before_end(work: Callable[[], object]) -> None:
    """What this copy does if the script is over before it has sent anything."""
    _last[:] = [work]


def end() -> NoReturn:
    """End this copy, which has seen nothing more."""
    try:
        for work in _last:
            work()
    finally:
        os._exit(1)


def reason_not_to_branch() -> str:
    """Why the script cannot go on in a copy of this process; empty if it can."""
    torch: Any = sys.modules.get("torch")
    devices = getattr(torch, "accelerator", None)
    if not sys.platform.startswith("linux") or (devices is not None and devices.is_available()):
        return "this process cannot be copied"
    if not _before.issuperset(_threads_and_children()):
        return "a copy would share other threads or processes with the script"
    kinds = [os.fstat(fd).st_mode for fd in _open_files()]
    return "a copy would share connections" if any(map(stat.S_ISSOCK, kinds)) else ""


def _threads_and_children() -> set[threading.Thread | str]:
    """The threads, and the processes that this one has started: a copy lacks the former and would
    talk to the latter as well."""
    others: set[threading.Thread | str] = set(threading.enumerate())
    for lists in Path("/proc/self/task").glob("*/children"):  # none but on Linux
        with suppress(OSError):  # a thread that has just ended
            others.update(lists.read_text(encoding="utf-8").split())
    return others


def _open_files() -> list[int]:
    """Descriptors of what the script has open."""
    every = {int(link.name): link for link in Path("/proc/self/fd").iterdir()}
    return [fd for fd, link in every.items() if fd > 2 and link.exists()]


def _read_positions() -> dict[int, int]:
    """Where open files are being read."""
    files = [fd for fd in _open_files() if stat.S_ISREG(os.fstat(fd).st_mode)]
    return {fd: os.lseek(fd, 0, os.SEEK_CUR) for fd in files}
