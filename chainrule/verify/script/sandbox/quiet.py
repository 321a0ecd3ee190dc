"""The user's code runs again and leaves no trace: streams are put back, side effects are refused.

`calm` is for work between two steps: random streams, modes and defaults are put back, nothing is
printed. `confine` is for copies of the process: what Python does to files, processes and
connections it announces (`sys.addaudithook`), so that it can be refused; what libraries write past
Python is refused where it is known, and files cannot grow in any case. `reclaim` makes memory this
process's own again when copies are gone: else the first write to each page goes through the kernel.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.verify.streams import streams


@contextmanager
def calm() -> Generator[None]:
    """Within it the user's code may run again: what it draws, sets or prints does not count."""
    back = [_streams(), *_torch()]
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(io.StringIO()))
        stack.enter_context(redirect_stderr(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(np.errstate(all="ignore"))
        warnings.simplefilter("ignore")
        for restore in back:
            stack.callback(restore)
        yield


def _streams() -> Callable[[], None]:
    some = streams()

    def restore() -> None:
        for stream in some:
            stream.set(stream.start)

    return restore


def _torch() -> list[Callable[[], None]]:
    """How PyTorch is put back to where it is now; nothing if the script has not imported it."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return []
    stream, grad, dtype = torch.get_rng_state(), torch.is_grad_enabled(), torch.get_default_dtype()
    threads, exact = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def restore() -> None:
        torch.set_rng_state(stream)
        torch.set_grad_enabled(grad)
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.are_deterministic_algorithms_enabled() != exact:
            torch.use_deterministic_algorithms(exact)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)

    return [restore]


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink",
    "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr", "os.kill", "os.killpg",
    "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork", "os.startfile", "shutil.",
    "subprocess.", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo",
    "sqlite3.connect", "webbrowser.", "ftplib.", "smtplib.", "urllib.",
)  # fmt: skip
"""Beginnings of the names of what is announced."""


_lists: list[list[str]] = []
"""What was refused, if this process is confined."""
_copying: list[None] = []
"""Not empty while we ourselves copy the process."""


class RefusedError(PermissionError):
    """Code that runs for a second time asked for something that would leave a trace."""


def confine() -> list[str]:
    """From here on this process leaves no trace; the list tells what was refused.

    It cannot be undone: for copies of a process.
    """
    from resource import RLIMIT_FSIZE, getrlimit, setrlimit  # which not all systems have

    sys.dont_write_bytecode = True
    setrlimit(RLIMIT_FSIZE, (0, getrlimit(RLIMIT_FSIZE)[1]))
    refused: list[str] = []
    _lists.append(refused)

    def refuse(why: str) -> None:
        refused.append(why)
        raise RefusedError(why)

    def write(*args: Any, **kwargs: Any) -> None:
        refuse("it would write a file")

    for module, name in (("torch._C", "PyTorchFileWriter"), ("safetensors.torch", "save_file")):
        if module in sys.modules:
            setattr(sys.modules[module], name, write)
    sys.addaudithook(lambda event, args: _listen(event, args, refuse))
    return refused


@contextmanager
def copying() -> Generator[None]:
    """Within it a confined process may be copied: the copy is as confined as it is."""
    _copying.append(None)
    try:
        yield
    finally:
        _copying.pop()


def is_confined() -> bool:
    """Whether this process is such a one, which may not be copied either."""
    return bool(_lists)


def _listen(event: str, args: tuple[Any, ...], refuse: Callable[[str], None]) -> None:
    if event == "open":
        path, _, flags = args
        if not isinstance(path, int) and flags & _WRITES and os.fspath(path) != os.devnull:
            refuse(f"it would write to {os.fspath(path)}")
    elif event.startswith(_REFUSED) and not (event == "os.fork" and _copying):
        refuse(f"it would call {event}")


_POPULATE_WRITE = 23
"""Linux's MADV_POPULATE_WRITE, since 5.14: take the faults of writing now, and write nothing."""
_PRESENT, _OF_FILE = np.uint64(1 << 63), np.uint64(1 << 61)
"""In an entry of /proc/self/pagemap: the page is in memory; it is a file's, not the process's."""
_MOST = 1 << 31
"""Bytes of larger processes that are left to the script."""


def reclaim() -> None:
    """Take the write faults of all pages of this process that are in memory; no page is added.

    Does nothing where the system cannot, or where there is more than 2 GiB.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        ranges = [r for span in _writable() for r in _present(*span)]
        advise = ctypes.CDLL(None, use_errno=True).madvise
        if sum([size for _, size in ranges]) <= _MOST:
            for start, size in ranges:
                advise(ctypes.c_void_p(start), ctypes.c_size_t(size), _POPULATE_WRITE)
    except OSError:
        return


def _writable() -> list[tuple[int, int]]:
    """First and last address of memory of its own that the process may write to."""
    found: list[tuple[int, int]] = []
    for line in Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines():
        span, rights, *_ = line.split()
        if rights.startswith("rw") and rights.endswith("p"):
            start, end = span.split("-")
            found.append((int(start, 16), int(end, 16)))
    return found


def _present(start: int, end: int) -> list[tuple[int, int]]:
    """Runs of the process's pages between the addresses that are in memory: address and size."""
    page = mmap.PAGESIZE
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        file.seek(start // page * 8)
        entries = np.frombuffer(file.read((end - start) // page * 8), dtype=np.uint64)
    own = (entries & (_PRESENT | _OF_FILE)) == _PRESENT
    here = np.concatenate([[False], own, [False]])
    edges = np.flatnonzero(here[1:] != here[:-1])
    return [(start + int(a) * page, int(b - a) * page) for a, b in edges.reshape(-1, 2)]
