"""Where something of the user's stands: file, line, and the function around it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """A line of a file; `str()` is `file:line`, which terminals and editors can open."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The line itself, without its indentation; empty if the file cannot be read."""
        try:
            lines = Path(self.file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return ""
        return lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""
