"""Work in a copy of the process, so that it cannot touch the script that is being observed.

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
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from chainrule.errors import ChainruleError
from chainrule.verify.script.sandbox.quiet import calm, is_confined

_T = TypeVar("_T")

PATIENCE = 600.0
"""Seconds after which work that does not end is given up."""


class LostError(ChainruleError, RuntimeError):
    """The copy of the process ended without a result; the message says how."""


def in_copy(work: Callable[[], _T], patience: float = PATIENCE) -> _T:
    """What `work()` returns (values that can be pickled), computed in a copy of this process.

    Raises:
        LostError: If it raised, crashed, or took longer than `patience` seconds.
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
    end = time.monotonic() + patience
    late = False
    try:
        while not late:
            ready = select.select([read], [], [], max(0.0, end - time.monotonic()))[0]
            late = not ready
            chunk = os.read(read, 1 << 20) if ready else b""
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
