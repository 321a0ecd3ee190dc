"""Scripts that compute gradients by hand, run under observation for tests."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from chainrule.verify import script
from chainrule.verify.script.byhand.step import WHAT


def looked_at(tmp_path: Path, text: str, steps: int = 3) -> tuple[list[Any], Any, str]:
    """Findings about gradients by hand, the outcome, and what the script printed."""
    path, printed = tmp_path / "train.py", io.StringIO()
    path.write_text(text, encoding="utf-8")
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        outcome = script.run(
            script.target(str(path)), steps=steps, own=script.OWN, torch=script.TORCH,
            loop=script.LOOP,
        )  # fmt: skip
    assert outcome.code == 0
    found = [f for f in outcome.report.findings if f.level != "note" and f.subject == WHAT]
    return found, outcome, printed.getvalue()
