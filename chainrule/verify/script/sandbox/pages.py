"""Memory after copies of the process: made this process's own again before the script goes on.

A copy shares all memory with its parent, until one of them writes to a page. Once the copies are
gone, the first write to each page still goes through the kernel: thousands of interruptions in the
script's next step. They are taken here, in the time of the report.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np

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
