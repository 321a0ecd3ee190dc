"""A copy of the process in which the script itself goes on, to see what it does with other numbers.

What is done `apart` is work of ours; here the script runs on, in a copy that leaves no trace
(`confined`), until the copy sends what it has seen. The script's own process waits meanwhile.
"""

from __future__ import annotations

import os
import pickle
import stat
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from chainrule.verify.script.sandbox.fork import receive, settle
from chainrule.verify.script.sandbox.quiet import confine, copying

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


def end() -> NoReturn:
    """End this copy, which has seen nothing."""
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
