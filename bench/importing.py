"""How long does an import take, beside `import numpy`? Whole processes, in turn.

`import chainrule` loads the engine when something of it is asked for, so that is measured, too.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from bench.pairs import Row, row, seconds

PROGRAMS = {
    "import chainrule": "≤ 1.40",
    "from chainrule.scalar import Value": "≤ 1.00",
    "import chainrule as cr; cr.tensor": "≤ 1.40",
}
TURNS = 21


def run() -> list[Row]:
    return [_beside_numpy(program, aim) for program, aim in PROGRAMS.items()]


def _beside_numpy(program: str, aim: str) -> Row:
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(TURNS + 1):
        mine.append(seconds(lambda: _run(program)))
        theirs.append(seconds(lambda: _run("import numpy")))
    # the first of each has compiled and read the files
    return row(
        f"{program} / import numpy",
        statistics.median(mine[1:]),
        statistics.median(theirs[1:]),
        aim,
    )


def _run(program: str) -> None:
    # an installed package has its bytecode beside it; so has this one after the first import
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
