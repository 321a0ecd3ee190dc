"""How long does `import chainrule` take, beside `import numpy`? Whole processes, in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from bench.pairs import Row, row, seconds


def run() -> list[Row]:
    def importing(name: str) -> None:
        # an installed package has its bytecode beside it; so has this one after the first import
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run([sys.executable, "-c", f"import {name}"], check=True, env=environment)

    importing("chainrule")
    importing("numpy")
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(15):
        mine.append(seconds(lambda: importing("chainrule")))
        theirs.append(seconds(lambda: importing("numpy")))
    return [
        row(
            "import chainrule / import numpy",
            statistics.median(mine),
            statistics.median(theirs),
            "≤ 1.50",
        )
    ]
