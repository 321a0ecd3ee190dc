"""Reading files that anybody may have put there: nothing waits, nothing is read beyond its size.

A path may name a pipe that nobody writes to, a device without an end, or a link to either. Opening
and reading such a thing the usual way waits for ever. So a file is opened without waiting, and what
has been opened, not the path, is asked what it is.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from stat import S_ISREG


def _flags(*names: str) -> int:
    """These flags of `os.open`, each where the system has it."""
    return sum([getattr(os, name, 0) for name in names])


_OPEN = _flags("O_RDONLY", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY")
NO_LINK = _flags("O_NOFOLLOW")
"""The flag with which a symbolic link is not followed."""


def open_regular(path: Path, flags: int = 0) -> tuple[int, os.stat_result]:
    """A descriptor of the file at `path`, and what the system says of it.

    Raises `OSError`, also for what is no regular file.
    """
    handle = os.open(path, _OPEN | flags)
    try:
        stat = os.fstat(handle)
        if not S_ISREG(stat.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
    except BaseException:
        os.close(handle)
        raise
    return handle, stat


def read_regular(path: Path, most: int | None = None, *, stop: bytes = b"") -> bytes:
    """The content of a regular file, of at most `most` bytes.

    With `stop`, a byte, only as far as a mebibyte in which it stands: for files that must not hold
    it, which may be large and have holes. Raises `OSError`, also for a larger file and for what is
    no regular file.
    """
    handle, stat = open_regular(path)
    with os.fdopen(handle, "rb") as file:
        if most is not None and stat.st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
        if not stop:
            return file.read(stat.st_size)
        parts: list[bytes] = []
        while (not parts or stop not in parts[-1]) and (part := file.read(1 << 20)):
            parts.append(part)
        return b"".join(parts)
