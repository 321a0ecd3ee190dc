"""A C compiler, and programs that it made."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler: gcc or cc")


def built(source: Path, level: str = "-O2") -> Path:
    """The program; a warning is an error."""
    program = source.with_suffix(".exe")
    command = [
        str(COMPILER), level, "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", str(program),
        str(source), "-lm",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def ran(program: Path, *arguments: str) -> str:
    """What it prints, run where it lies."""
    done = subprocess.run(
        [str(program), *arguments], cwd=program.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(source: Path, steps: int) -> list[float]:
    """The last number of each line that the program prints in so many steps."""
    return [float(line.split()[-1]) for line in ran(built(source), str(steps)).splitlines()]


def left(source: Path, like: Sequence[Any], steps: int = 1) -> list[Any]:
    """The arrays that the program leaves at its end, in order; `like` are arrays of their kinds."""
    out = source.with_suffix(".out")
    ran(built(source), str(steps), source.with_suffix(".bin").name, out.name)
    data = out.read_bytes()
    assert len(data) == sum([a.nbytes for a in like])
    arrays: list[Any] = []
    for a in like:
        part, data = data[: a.nbytes], data[a.nbytes :]
        arrays.append(np.frombuffer(part, a.dtype).reshape(a.shape))
    return arrays
