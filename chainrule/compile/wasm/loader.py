"""The JavaScript beside a module: reads where its arrays are, and calls it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

from chainrule.files.whole_files import write_whole

NAME: Final = "chainrule.mjs"


def script() -> str:
    """The loader for a page that holds it, and for its workers: a script that defines `load`."""
    return text().rpartition("export ")[0]


def text() -> str:
    """The loader: a JavaScript module without imports."""
    return files("chainrule.compile.wasm").joinpath(NAME).read_text(encoding="utf-8")


def write_loader(folder: Path) -> Path:
    """Write it to a folder; returns its path."""
    path = folder / NAME
    write_whole(path, text())
    return path
