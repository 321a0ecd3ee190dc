"""The WebAssembly modules that a page carries, compiled once and then taken from the cache."""

from __future__ import annotations

import tempfile
from pathlib import Path

from chainrule.studio.op_table import table_module
from chainrule.studio.training import training_modules


def page_modules() -> dict[str, bytes]:
    """The modules by name."""
    with tempfile.TemporaryDirectory() as name:
        return {**training_modules(), "ops": table_module(Path(name)).read_bytes()}
