"""What the page about workers says, and the example, are run."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from chainrule import parallel
from tests.parallel.running import PATIENCE, ROOT, environment, places

PAGE = (ROOT / "docs" / "parallel.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "parallel_names.py"


def test_the_model_of_a_step_gives_the_page_s_numbers():
    ((code, printed),) = re.findall(
        r"```python\n(from math.*?)```\n\n```text\n(.*?)```", PAGE, re.S
    )
    out = io.StringIO()
    with redirect_stdout(out):
        exec(code, {})
    assert out.getvalue() == printed


def test_the_page_names_every_method():
    for name in (n for n in dir(parallel.Group) if not n.startswith("_") and n != "same_bits"):
        assert re.search(rf"`{name}\(", PAGE), name


@pytest.mark.sweep
def test_the_example_gives_the_same_weights_alone_and_with_two_workers(tmp_path: Path):
    said: list[str] = []
    for size in (1, 2):
        started = [
            subprocess.Popen(
                [sys.executable, str(EXAMPLE), str(tmp_path / str(size))],
                env=environment(**place.variables()), stdout=subprocess.PIPE, text=True,
            )
            for place in places(size)
        ]  # fmt: skip
        outs = [process.communicate(timeout=2 * PATIENCE)[0] for process in started]
        said.append(outs[0])
    assert said[0] == said[1]
    assert "SHA-256 of all weights" in said[0]
