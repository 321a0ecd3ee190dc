"""Programs that run in a process of their own, in which some packages cannot be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPTIONAL = ("scipy", "llvmlite", "ml_dtypes", "rich", "safetensors", "torch", "sklearn")
"""All that chainrule can use beside NumPy."""

_BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ImportError(f"{{name}} is blocked", name=name)

assert not {names!r} & {{name.partition(".")[0] for name in sys.modules}}
sys.meta_path.insert(0, Blocked())
"""


def run_blocked(code: str, names: Iterable[str], *args: str) -> str:
    """What `code` prints where the packages `names` are missing; `args` are its `sys.argv[1:]`."""
    done = subprocess.run(
        [sys.executable, "-c", _BLOCK.format(names=set(names)) + code, *args],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
