"""The secret that tells this user's cache entries from everybody else's.

It lies outside of the cache, in `$XDG_CONFIG_HOME/chainrule` or `~/.config/chainrule`, readable by
its owner alone. A folder of entries that was copied, unpacked or cloned from elsewhere was signed
with another key. It holds nothing, even if it now belongs to this user.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISLNK

from chainrule.files.regular_files import NO_LINK, open_regular

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

SIZE = 32
_NAME = "cache.key"
_known: dict[Path, bytes] = {}


class ForeignError(Exception):
    """A file or folder that somebody else controls, with the reason in words."""


def refuse_foreign(path: Path, stat: os.stat_result, *, secret: bool = False) -> None:
    """Raise `ForeignError` for what is not this user's alone.

    That is what another user owns or can write, or, if `secret`, can read. Links count as foreign:
    where they lead may change.
    """
    if S_ISLNK(stat.st_mode):
        raise ForeignError(f"{path} is a symbolic link")
    if not hasattr(os, "geteuid"):
        return  # Windows keeps its permissions elsewhere; the key still decides
    if stat.st_uid != os.geteuid():
        raise ForeignError(f"{path} belongs to another user")
    if stat.st_mode & (0o077 if secret else 0o022):
        how = "read" if secret else "written"
        raise ForeignError(f"{path} can be {how} by others (mode {stat.st_mode & 0o777:o})")


def folder() -> Path:
    """Where the key is; raises `RuntimeError` where nobody's home is known."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "chainrule"


def key(*, make: bool) -> bytes | None:
    """The key; None if there is none and none was made. With `make` a new one is made.

    Raises `ForeignError` for one that others control, `OSError` where it can't be read or made.
    """
    path = folder() / _NAME
    found = _known.get(path)
    if found is None:
        found = _read(path)
        if found is None and make:
            found = _make(path)
        if found is not None:
            _known[path] = found
    return found


def _read(path: Path) -> bytes | None:
    """The key in a file; None if there is no file, or one that was not written to its end."""
    try:
        refuse_foreign(path.parent, path.parent.lstat())
        handle, stat = open_regular(path, NO_LINK)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        refuse_foreign(path, stat, secret=True)
        found = file.read(SIZE + 1)
    return found if len(found) == SIZE else None


def _make(path: Path) -> bytes | None:
    """A new key in a file that appears whole; of processes that make one at once, the first's.

    Only the process that holds the folder looks whether there is a key and puts one there. So a
    damaged file is replaced, and nobody else's new key is taken for one.
    """
    import tempfile

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_foreign(path.parent, path.parent.lstat())
    with _lock(path.parent):
        if (found := _read(path)) is not None:
            return found
        handle, name = tempfile.mkstemp(dir=path.parent)  # readable by its owner alone
        part = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(os.urandom(SIZE))
                file.flush()
                os.fsync(file.fileno())  # zeros after a crash would be a key that all know
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return _read(path)


@contextmanager
def _lock(folder: Path) -> Generator[None]:
    """While the block runs, other processes wait at their own.

    Systems without `flock` (Windows) don't wait: of several keys the last one stays, and entries
    that were signed with another are made again.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
