"""Where a test's marked line is: messages must name it."""

from __future__ import annotations

from pathlib import Path


def marked(file: str, mark: str) -> str:
    """`file:line` of the one line that ends in the comment `# <mark>`."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    found = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    assert len(found) == 1, (mark, found)
    return f"{file}:{found[0]}"
