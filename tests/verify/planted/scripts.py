"""Mistakes in training scripts: each spoiled script runs under `chainrule verify`, as a user's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from . import modules, slips
from .case import Case, Right
from .judge import Outcome, hold

LIMIT = 180.0
"""Seconds for one script, the import of PyTorch included."""


def rights() -> list[Right]:
    """All right scripts."""
    return slips.rights("script")


def written(name: str, source: str) -> Path:
    """A script in a file of its own."""
    path = modules.folder() / f"{name.replace('/', '_')}.py"
    path.write_text(source, encoding="utf-8")
    return path


def report(path: Path) -> tuple[Any, str]:
    """The report on a script, read from its JSON; None and what was printed if there is none."""
    command = [sys.executable, "-m", "chainrule", "verify", "--stop", "--json", "-", path.name]
    done = subprocess.run(
        command, cwd=path.parent, capture_output=True, text=True, check=False, timeout=LIMIT
    )
    try:
        read = json.loads(done.stdout, object_hook=lambda d: SimpleNamespace(**d))
    except json.JSONDecodeError:
        last = (done.stderr.strip() or "nothing was printed").splitlines()[-1]
        return None, f"exit code {done.returncode}: {last[:200]}"
    return read, done.stderr


def judge(case: Case) -> Outcome:
    """Run a spoiled script under the verifier and hold the report against the case."""
    path = written(case.id, case.source)
    start = time.perf_counter()
    try:
        found, said = report(path)
    except subprocess.TimeoutExpired:
        found, said = None, f"not done after {LIMIT:g} s"
    took = time.perf_counter() - start
    if found is None:
        return Outcome(case.id, "script", case.slip.v, case.frozen, seconds=took, broke=said)
    return hold(case, found, path, took)
