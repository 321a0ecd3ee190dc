"""Writing so that a file or folder is there whole or not at all, whenever the machine stops.

What is new is written under a temporary name in the same folder, flushed to the disk, and renamed:
on one file system a rename happens or does not happen.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.([0-9]{1,18})\.tmp", re.DOTALL)


def write_file(path: Path, content: bytes) -> None:
    """Put `content` into the file `path`, replacing it at once; on failure the old one stays."""
    temporary = _temporary(path)
    try:
        _write(temporary, content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Make the folder `path` with `files` in it; on failure there is none.

    A folder that is there already is set aside first (see `set_aside`).
    """
    temporary = _temporary(path)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for name, content in files.items():
            _write(temporary / name, content)
        _flush(temporary)
        if path.exists():
            set_aside(path)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _flush(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder, at once for whoever looks: it loses its name first, then its files.

    What a process that is stopped meanwhile leaves has a temporary name.
    """
    temporary = _temporary(path)
    with suppress(OSError):
        path.rename(temporary)
        shutil.rmtree(temporary)


def clean(folder: Path) -> None:
    """Remove from a folder what processes that were killed left under temporary names."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            found = _TEMPORARY.fullmatch(path.name)
            if found and _is_gone(int(found[1])):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _is_gone(process: int) -> bool:
    """Whether what a process with this number left is nobody's: it ended, or it is this one.

    This one has written nothing yet: in a container each start has the same number.
    """
    if process == os.getpid():
        return True
    if os.name == "nt":
        return False  # Windows has no question to a process that does not end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def set_aside(path: Path) -> Path:
    """Rename `path` to `path.aside` (or `.aside-2`, ..), so that nothing is lost; the new path."""
    names = (path.with_name(f"{path.name}.aside{'' if i == 1 else f'-{i}'}") for i in count(1))
    aside = next(name for name in names if not name.exists())
    return path.rename(aside)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    """Bring a folder's list of names to the disk, where the system can do that."""
    if os.name == "nt":
        return  # Windows has no handle on a folder to flush
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
