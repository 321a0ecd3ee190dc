"""Where something of the user's stands: file, line, and the function around it."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.engine.source_text import display_line, source_line


@dataclass(frozen=True)
class Place:
    """A line of a file; `str()` is `file:line`, which terminals and editors can open, or a cell."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return display_line(f"{self.file}:{self.line}")

    @property
    def text(self) -> str:
        """The line itself, without its indentation; empty if nobody knows the text."""
        return source_line(self.file, self.line).strip()
