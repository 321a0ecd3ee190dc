"""How long does `import chainrule` take, beside `import numpy`? Whole processes, in turn."""

from __future__ import annotations

import statistics
import subprocess
import sys

from bench.pairs import Row, row, seconds


def run() -> list[Row]:
    def importing(name: str) -> None:
        subprocess.run([sys.executable, "-c", f"import {name}"], check=True)

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
