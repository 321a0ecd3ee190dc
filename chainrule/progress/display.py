"""Where loops that are tracked are shown: a bar each in a terminal, one output in a notebook.

Loops in loops are shown together, the outer one first: a display lives as long as its outermost
loop. In a pipe or a log nothing is shown.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from typing import Any, final

from chainrule.optional import require


class ProgressLoop(ABC):
    """A loop as a display shows it."""

    title: str
    total: int | None

    @property
    @abstractmethod
    def step(self) -> int:
        """How many steps are taken."""

    @property
    @abstractmethod
    def numbers(self) -> str:
        """What the loop has shown last, in words."""

    @property
    @abstractmethod
    def rate(self) -> str:
        """Steps a second, in words."""


class Display(ABC):
    """Shows loops; `add` and `remove` are called in the order of a stack."""

    @abstractmethod
    def add(self, loop: ProgressLoop) -> None:
        """Show one more loop."""

    @abstractmethod
    def change(self, loop: ProgressLoop) -> None:
        """Show how far a loop is."""

    @abstractmethod
    def remove(self, loop: ProgressLoop) -> None:
        """Show a loop for the last time."""


@final
class Nothing(Display):
    """For a pipe or a log."""

    def add(self, loop: ProgressLoop) -> None:
        """Show nothing."""

    def change(self, loop: ProgressLoop) -> None:
        """Show nothing."""

    def remove(self, loop: ProgressLoop) -> None:
        """Show nothing."""


@final
class Bars(Display):
    """Bars in a terminal, on stderr. What the loop prints appears above them."""

    def __init__(self, console: Any) -> None:
        self._console = console
        self._bars: Any = None
        self._tasks: dict[int, Any] = {}

    def add(self, loop: ProgressLoop) -> None:
        """Add a bar."""
        if not self._tasks:
            self._bars = _bars(self._console)
            self._bars.start()
        self._tasks[id(loop)] = self._bars.add_task(
            loop.title, total=loop.total, numbers="", rate="-"
        )

    def change(self, loop: ProgressLoop) -> None:
        """Move its bar."""
        self._bars.update(
            self._tasks[id(loop)], completed=loop.step, numbers=loop.numbers, rate=loop.rate
        )

    def remove(self, loop: ProgressLoop) -> None:
        """Leave the bar of the outermost loop where it is; an inner one goes."""
        self.change(loop)
        task = self._tasks.pop(id(loop))
        if self._tasks:
            self._bars.remove_task(task)
        else:
            self._bars.stop()


def _bars(console: Any) -> Any:
    p: Any = require("rich.progress", "a progress bar")
    return p.Progress(
        p.TextColumn("{task.description}"),
        p.BarColumn(bar_width=None),
        p.MofNCompleteColumn(),
        p.TextColumn("{task.fields[numbers]}"),
        p.TextColumn("{task.fields[rate]}/s"),
        p.TimeRemainingColumn(compact=True),
        console=console,
        expand=True,
    )


@final
class NotebookLines(Display):
    """One output of a notebook's cell that changes: a line for each loop."""

    def __init__(self) -> None:
        self._loops: list[ProgressLoop] = []
        self._output: Any = None

    def add(self, loop: ProgressLoop) -> None:
        """Add a line."""
        if not self._loops:
            self._output = None
        self._loops.append(loop)
        self.change(loop)

    def change(self, loop: ProgressLoop) -> None:
        """Write the lines anew."""
        shown = {"text/plain": "\n".join([_line(each) for each in self._loops])}
        if self._output is None:
            display: Any = require("IPython.display", "progress in a notebook").display
            self._output = display(shown, raw=True, display_id=True)
        else:
            self._output.update(shown, raw=True)

    def remove(self, loop: ProgressLoop) -> None:
        """Leave the line of the outermost loop; an inner one goes."""
        self.change(loop)
        self._loops.remove(loop)


def _line(loop: ProgressLoop) -> str:
    total = "" if loop.total is None else f"/{loop.total}"
    words = [loop.title, f"{loop.step}{total}", loop.numbers, f"{loop.rate}/s"]
    return "  ".join([word for word in words if word])


def in_notebook() -> bool:
    """Whether the output is that of a notebook's cell."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def display() -> Display:
    """The one for where this process writes now."""
    if in_notebook():
        return NotebookLines()
    if not sys.stderr.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return Nothing()
    console: Any = require("rich.console", "a progress bar").Console
    return Bars(console(stderr=True))


@final
class Stage:
    """The display of the loops that run now."""

    def __init__(self) -> None:
        self._loops = 0
        self.display: Display = Nothing()

    def enter(self, loop: ProgressLoop) -> None:
        """Show a loop from now on; the outermost one decides where."""
        if not self._loops:
            self.display = display()
        self._loops += 1
        self.display.add(loop)

    def leave(self, loop: ProgressLoop) -> None:
        """Show a loop for the last time."""
        self._loops -= 1
        self.display.remove(loop)


STAGE = Stage()
