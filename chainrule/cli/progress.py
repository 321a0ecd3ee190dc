"""How a run shows that it is alive. It is a bar in a terminal, one line that changes in a notebook,
plain lines in a log or a pipe.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self, final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress

from chainrule.optional import require
from chainrule.progress.display import in_notebook
from chainrule.progress.recent import Mean, Rate

LINES = 20
"""About how many plain lines a run prints."""
REFRESH = 0.1
"""Seconds between two states of a line that changes."""


class Progress(ABC):
    """Told of every step. A context manager: what it draws is finished when it ends."""

    @abstractmethod
    def step(self, step: int, loss: float, held_out: float | None) -> None:
        """`step` steps are taken; the last had this loss. `held_out` where it was just measured."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@final
class Recent:
    """The mean loss of about the last fifty steps, and how many steps a second are taken."""

    def __init__(self) -> None:
        self._mean, self._rate = Mean(), Rate()

    def add(self, loss: float) -> None:
        """One more step."""
        self._mean.add(loss)
        self._rate.steps += 1

    @property
    def loss(self) -> float:
        """The mean."""
        return self._mean.value

    @property
    def rate(self) -> float:
        """Steps a second."""
        return self._rate.value


@final
class Bar(Progress):
    """A live bar with the loss, steps a second and the time left."""

    def __init__(self, console: Console, start: int, steps: int) -> None:
        self._recent = Recent()
        self._held = ""
        self._bar = RichProgress(
            SpinnerColumn(),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("{task.fields[rate]} steps/s"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            expand=True,
        )
        self._task = self._bar.add_task("", total=steps, completed=start, loss="-", rate="-")

    def step(self, step: int, loss: float, held_out: float | None) -> None:
        """Move the bar."""
        self._recent.add(loss)
        if held_out is not None:
            self._held = f" (held-out {held_out:.3f})"
        self._bar.update(
            self._task,
            completed=step,
            loss=f"{self._recent.loss:.3f}{self._held}",
            rate=f"{self._recent.rate:,.0f}"
            if self._recent.rate >= 10
            else f"{self._recent.rate:.1f}",
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


@final
class Lines(Progress):
    """A line now and then, for a log or a pipe."""

    def __init__(self, console: Console, start: int, steps: int) -> None:
        self._console, self._start, self._steps = console, start, steps
        self._recent = Recent()

    def step(self, step: int, loss: float, held_out: float | None) -> None:
        """Print the first step, the last, and every twentieth of them."""
        self._recent.add(loss)
        every = max(1, self._steps // LINES)
        if step % every and step not in (self._start + 1, self._steps):
            return
        held = "" if held_out is None else f"  held-out {held_out:.4f}"
        self._console.print(
            _describe_step(step, self._steps, self._recent) + held,
            highlight=False,
            soft_wrap=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


@final
class LiveLine(Progress):
    """One output of a notebook's cell that changes. (`\\r` makes an output of each of its states
    where no browser looks on.)"""

    def __init__(self, console: Console, start: int, steps: int) -> None:
        self._step, self._steps = start, steps
        self._recent = Recent()
        self._held = ""
        self._next = 0.0
        self._output: Any = None

    def step(self, step: int, loss: float, held_out: float | None) -> None:
        """Write the line anew, if the last time is long enough ago."""
        self._recent.add(loss)
        self._step = step
        if held_out is not None:
            self._held = f"  held-out {held_out:.4f}"
        if time.perf_counter() >= self._next:
            self._write()
            self._next = time.perf_counter() + REFRESH

    def _write(self) -> None:
        shown = {"text/plain": _describe_step(self._step, self._steps, self._recent) + self._held}
        if self._output is None:
            display: Any = require("IPython.display", "a progress bar in a notebook").display
            self._output = display(shown, raw=True, display_id=True)
        else:
            self._output.update(shown, raw=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write()


def _describe_step(step: int, steps: int, recent: Recent) -> str:
    """A step in words."""
    left = (steps - step) / recent.rate if recent.rate else 0.0
    return (
        f"step {step:>6}/{steps}  loss {recent.loss:.4f}  {recent.rate:.1f} steps/s"
        f"  {left:.0f} s left"
    )


def progress(console: Console, start: int, steps: int) -> Progress:
    """A bar where somebody watches a terminal, a line in a notebook, lines elsewhere."""
    if in_notebook():
        return LiveLine(console, start, steps)
    kind = Bar if console.is_terminal and not console.is_dumb_terminal else Lines
    return kind(console, start, steps)
