"""Things in the file system that are no files, though they have a file's name."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

WORDS = ("pipe", "folder", "link to a device", "link to itself", "hole", "nobody may read", "gone")


def put(rng: random.Random, path: Path) -> str:
    """Put such a thing where a file is; in a word what it is."""
    word = rng.choice(WORDS)
    if word != "nobody may read" and path.is_dir():
        shutil.rmtree(path)
    elif word not in ("hole", "nobody may read"):
        path.unlink(missing_ok=True)
    if word == "pipe":
        os.mkfifo(path)
    elif word == "folder":
        path.mkdir()
    elif word == "link to a device":
        path.symlink_to("/dev/zero")
    elif word == "link to itself":
        path.symlink_to(path.name)
    elif word == "hole":  # three gigabytes that take no room
        with path.open("ab") as file:
            file.truncate(3 << 30)
    elif word == "nobody may read":
        path.chmod(0)
    return word
