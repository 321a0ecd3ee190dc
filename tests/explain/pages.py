"""Runs the programs of a page: each `python` block, whose output is the `text` block after it."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path

from chainrule.errors import ChainruleError

FILE = "train.py"
"""The name under which a program runs, and which messages give."""

_BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def programs(page: Path) -> list[tuple[str, str]]:
    """Program and output of every pair of blocks."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def run(program: str) -> str:
    """What a program prints; if it ends in one of our errors or warnings, that too."""
    lines = program.splitlines(keepends=True)
    linecache.cache[FILE] = (len(program), None, lines, FILE)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(program, FILE, "exec"), {"__name__": "train"})
    except (ChainruleError, ValueError, UserWarning) as error:
        said = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        print("\n".join(said), file=out)
    finally:
        del linecache.cache[FILE]
    return out.getvalue()
