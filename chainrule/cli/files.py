"""Writing so that a file or folder is there whole or not at all, whenever the machine stops.

What is new is written under a temporary name in the same folder, flushed to the disk, and renamed:
on one file system a rename happens or does not happen.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from chainrule.errors import ConfigError


class CommandError(ConfigError):
    """A command that cannot go on, with the sentence that its user should read."""


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


def set_aside(path: Path) -> Path:
    """Rename `path` to `path.aside` (or `.aside-2`, ..), so that nothing is lost; the new path."""
    names = (path.with_name(f"{path.name}.aside{'' if i == 1 else f'-{i}'}") for i in count(1))
    aside = next(name for name in names if not name.exists())
    return path.rename(aside)


def fresh_folder(wanted: Path) -> Path:
    """Make the folder `wanted`, or `wanted-2`, `-3`, .. if there is one; the one that was made.

    Two commands that ask at the same moment get different ones.
    """
    for i in count(1):
        path = wanted if i == 1 else wanted.with_name(f"{wanted.name}-{i}")
        try:
            _make(path, exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise AssertionError("counting does not end")


def empty_folder(path: Path) -> Path:
    """Make the folder `path`, or take it if it is empty; an error if something is in it."""
    if path.exists() and not path.is_dir():
        raise CommandError(f"{path} is a file: give another folder with --out")
    _make(path, exist_ok=True)
    if any(path.iterdir()):
        raise CommandError(
            f"the folder {path} is not empty and is not written over: give another one with --out, "
            f"or continue the run that is in it with --resume {path}"
        )
    return path


def _make(path: Path, *, exist_ok: bool) -> None:
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except FileExistsError:
        raise
    except OSError as cause:
        raise CommandError(
            f"the folder {path} cannot be made ({cause.strerror}): give another one with --out"
        ) from cause


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
