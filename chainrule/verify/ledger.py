"""What a run looked at, what it did not and why, and what that cost: the end of every report."""

from __future__ import annotations

from dataclasses import dataclass, field

TRAINING = "training"
"""Kind of what is no gradient of its own: checks of the loop around the gradients."""
STEP = "training step"
"""Kind of what autograd does not see in one step as a whole."""


@dataclass(frozen=True)
class Checked:
    """One thing that was certified, or found wrong."""

    subject: str
    kind: str
    evaluations: int
    seconds: float
    how: str = ""
    """To read: "5 trials at 3 points, float64 and float32"."""


@dataclass(frozen=True)
class Skipped:
    """One thing, or a part of one, that was not looked at."""

    subject: str
    why: str


@dataclass(frozen=True)
class Planted:
    """A wrong gradient that this very run was given, to show that it is found."""

    what: str
    """To read: "x_bar of matmul times 1.001"."""
    caught: bool
    named: str
    """The name that it was given."""


@dataclass(eq=False)
class Ledger:
    """Filled while a run goes on; runs that are interrupted report what it holds."""

    checked: list[Checked] = field(default_factory=list[Checked])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    planted: Planted | None = None

    def add(self, other: Ledger) -> None:
        """What another run looked at, and what not."""
        self.checked.extend(other.checked)
        self.skipped.extend(other.skipped)
        self.planted = self.planted or other.planted

    @property
    def evaluations(self) -> int:
        """Evaluations of forwards and backwards in all."""
        return sum([c.evaluations for c in self.checked])

    @property
    def seconds(self) -> float:
        """Time spent on checking."""
        return sum([c.seconds for c in self.checked])
