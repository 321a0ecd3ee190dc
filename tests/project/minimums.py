"""Print what the package needs at run time, each at the oldest version that pyproject.toml allows.

`make minimums` installs that. A dependency without a minimum is an error.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def oldest(dependency: str) -> str:
    """`numpy==2.1` for `numpy>=2.1`."""
    stated = re.fullmatch(r"(\w+)>=([\d.]+)", dependency)
    if stated is None:
        raise ValueError(f"'{dependency}' states no minimum: write it as 'numpy>=2.1'")
    return f"{stated[1]}=={stated[2]}"


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    print(*[oldest(dependency) for dependency in project["dependencies"]], sep="\n")
