"""The console that commands write to."""

from __future__ import annotations

from typing import final

from rich.console import Console


@final
class PipedConsole(Console):
    """Rich's console; a reader that goes away is left to `main.main`."""

    def on_broken_pipe(self) -> None:
        """Rich calls this while it handles the error, and offers it to be overridden."""
        raise BrokenPipeError
