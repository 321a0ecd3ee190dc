"""The JavaScript beside a module: reads where its arrays are, and calls it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

NAME: Final = "chainrule.mjs"


def text() -> str:
    """The loader: a JavaScript module without imports, which a page can also hold as a script."""
    return files("chainrule.compile.wasm").joinpath(NAME).read_text(encoding="utf-8")


def write_loader(folder: Path) -> Path:
    """Write it to a folder; returns its path."""
    path = folder / NAME
    path.write_text(text(), encoding="utf-8")
    return path
