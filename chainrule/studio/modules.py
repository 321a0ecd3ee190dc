"""The WebAssembly modules that a page carries, compiled once and then taken from the cache."""

from __future__ import annotations

import tempfile
from pathlib import Path

from chainrule.studio.op_table import table_module


def page_modules() -> dict[str, bytes]:
    """The modules by name."""
    with tempfile.TemporaryDirectory() as name:
        return {"ops": table_module(Path(name)).read_bytes()}
