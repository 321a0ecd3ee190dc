"""`track`: a loop of the user's own that shows how far it is, and keeps the numbers it shows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar, final

from chainrule.engine.border import with_border
from chainrule.errors import ConfigError, DtypeError, describe
from chainrule.page.curve import Curve
from chainrule.page.curve_svg import svg
from chainrule.progress.display import STAGE, ProgressLoop
from chainrule.progress.recent import Mean, Rate

T = TypeVar("T")
REFRESH = 0.1
"""Seconds between two states of a bar."""


def track(
    steps: Iterable[T],
    title: str = "",
    *,
    total: int | None = None,
    writer: Any = None,
    first: int = 0,
) -> Track[T]:
    """The same steps, in a loop that shows how far it is and keeps what `show` is given.

    A bar in a terminal (on stderr), a line that changes in a notebook, nothing in a pipe. Loops in
    loops are shown together. `total` is the number of steps where `steps` has no length. `writer`
    logs each number that is shown, as step `first`, `first` + 1, ..: a `SummaryWriter` of
    TensorBoard (`torch.utils.tensorboard`, `tensorboardX`), or whatever has its `add_scalar`.

    >>> losses = cr.track(range(3), "epoch 1")
    >>> for step in losses:
    ...     losses.show(loss=1 / (step + 1))
    >>> losses.history["loss"]
    [(0, 1.0), (1, 0.5), (2, 0.3333333333333333)]
    """
    if total is None and isinstance(steps, Sized):
        total = len(steps)
    if writer is not None and not callable(getattr(writer, "add_scalar", None)):
        raise ConfigError(
            f"track: writer has a method add_scalar(name, number, step), as TensorBoard's "
            f"SummaryWriter; {describe(writer)} has none"
        )
    return Track(steps, title, total, writer, first)


@final
class Track(Generic[T], ProgressLoop):
    """A loop that shows how far it is; made by `track`.

    >>> loop = cr.track(range(3))
    >>> for i in loop:
    ...     loop.show(loss=1.0 / (i + 1))
    >>> loop.history["loss"][0]
    (0, 1.0)
    """

    def __init__(
        self, steps: Iterable[T], title: str, total: int | None, writer: Any, first: int
    ) -> None:
        self.title, self.total = title, total
        self.history: dict[str, list[tuple[int, float]]] = {}
        """By name, the numbers that were shown, each with its step."""
        self._steps, self._writer, self._first = steps, writer, first
        self._means: dict[str, Mean] = {}
        self._rate = Rate()
        self._running = False

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("the number of steps is not known: give track its total")
        return self.total

    def __iter__(self) -> Iterator[T]:
        self.history, self._means, self._rate = {}, {}, Rate()
        self._running = True
        STAGE.enter(self)
        due = 0.0
        try:
            for item in self._steps:
                yield item
                self._rate.steps += 1
                if (now := time.perf_counter()) >= due:
                    STAGE.display.change(self)
                    due = now + REFRESH
        finally:
            self._running = False
            self._rate.stop()
            STAGE.leave(self)

    def show(self, **numbers: Any) -> None:
        """Show numbers of this step: tensors of one element, or numbers. Their means are shown."""
        if not self._running:
            raise ConfigError("show: call it inside of the loop over what track gave")
        for name, x in numbers.items():
            number = _number(name, x)
            self.history.setdefault(name, []).append((self._first + self.step, number))
            self._means.setdefault(name, Mean()).add(number)
            if self._writer is not None:
                self._writer.add_scalar(name, number, self._first + self.step)

    # --- what a display shows

    @property
    def step(self) -> int:
        """How many steps are taken."""
        return self._rate.steps

    @property
    def numbers(self) -> str:
        """The recent means."""
        return "  ".join([f"{name} {mean.value:.4g}" for name, mean in self._means.items()])

    @property
    def rate(self) -> str:
        """Steps a second."""
        rate = self._rate.value
        return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"

    # --- what is left

    def __repr__(self) -> str:
        total = "" if self.total is None else f" of {self.total}"
        words = [f"{self.step}{total} steps", f"{self._rate.value:.4g} a second", self.numbers]
        return f"Track({', '.join([word for word in words if word])})"

    def curve(self, name: str = "") -> str:
        """The course of a number as an SVG picture, that of the first one if none is named."""
        if not self.history:
            raise ConfigError("curve: no number was shown: call show(loss=loss) in the loop")
        name = name or next(iter(self.history))
        if name not in self.history:
            raise ConfigError(f"curve: {name!r} was not shown; there are {', '.join(self.history)}")
        numbers = [number for _, number in self.history[name]]
        if len(finite := [x for x in numbers if abs(x) < float("inf")]) < len(numbers):
            raise ConfigError(f"curve: {len(numbers) - len(finite)} of {name} are not finite")
        title = f"{self.title}: {name}" if self.title else name
        return svg(Curve(numbers, (), title, repr(self)[6:-1], what=name, unit=""))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        shown = {"text/plain": repr(self)}
        try:
            return {**shown, "image/svg+xml": self.curve()}
        except ConfigError:
            return shown


def _number(name: str, x: Any) -> float:
    try:
        return float(x)
    except (TypeError, ValueError):
        raise DtypeError(
            f"show: {name} must be a number or a tensor of one element, not {describe(x)}"
        ) from None


with_border(globals())
