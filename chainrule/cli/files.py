"""The folders of commands, and the error that their users read."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path

from chainrule.errors import ConfigError
from chainrule.files.whole_folders import clean


class CommandError(ConfigError):
    """A command that cannot go on, with the sentence that its user should read."""


def fresh_folder(wanted: Path) -> Path:
    """Make the folder `wanted`, or `wanted-2`, `-3`, .. if there is one; the one that was made.

    Two commands that ask at the same moment get different ones.
    """
    for i in count(1):
        path = wanted if i == 1 else wanted.with_name(f"{wanted.name}-{i}")
        try:
            _make(path, exist_ok=False)
        except FileExistsError:
            clean(path / "checkpoints")
            continue
        return path
    raise AssertionError("counting does not end")


def empty_folder(path: Path) -> Path:
    """Make the folder `path`, or take it if it is empty; an error if something is in it."""
    if path.exists() and not path.is_dir():
        raise CommandError(f"{path} is a file: give another folder with --out")
    _make(path, exist_ok=True)
    _clear_unbegun(path)
    if any(path.iterdir()):
        raise CommandError(
            f"the folder {path} is not empty and is not written over: give another one with --out, "
            f"or continue the run that is in it with --resume {path}"
        )
    return path


def _clear_unbegun(run: Path) -> None:
    """Empty the folder of a run that was killed before it was saved for the first time."""
    for folder in (run / "checkpoints", run):
        clean(folder)
    with suppress(OSError):  # there is none, or something is in it
        (run / "checkpoints").rmdir()


def _make(path: Path, *, exist_ok: bool) -> None:
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except FileExistsError:
        raise
    except OSError as cause:
        raise CommandError(
            f"the folder {path} cannot be made ({cause.strerror}): give another one with --out"
        ) from cause
