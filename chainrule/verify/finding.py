"""What the verifier says about one mistake. Values only: `report.py` shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from chainrule.verify.mistakes import MISTAKES, Mistake
from chainrule.verify.place import Place
from chainrule.verify.subject import Array

Level = Literal["error", "warning", "note"]
"""`error`: a gradient is wrong. `warning`: probably not what was meant. `note`: good to know, but
not wrong (a kink, a straight-through estimator): a report with notes only is ok."""
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""In the order in which a report lists them."""


@dataclass(frozen=True)
class Name:
    """One name that fits, and why."""

    code: str
    because: str
    """In words and numbers: "A = 2.000 N, spread 3e-12"."""
    detail: str = ""
    """What exactly: "the factor is sqrt(d) = 2.828, d = 8"."""
    apart: str = ""
    """What would tell it from the other names that fit."""
    rank: float = 50.0
    """How plain an explanation it is: below 5 plain, above 20 a description."""

    def __post_init__(self) -> None:
        if self.code not in MISTAKES:  # here, where one part fails, not where all is shown
            raise ValueError(f"{self.code!r} is no row of the table of mistakes")

    @property
    def mistake(self) -> Mistake:
        """The row of the table."""
        return MISTAKES[self.code]


@dataclass(frozen=True)
class Correction:
    """How to put it right, and whether that was tried."""

    formula: str
    """The right gradient of the input, or what to do with the wrong one: "x_bar = g @ W.T"."""
    before: str = ""
    """The lines of the user's code that change, as they are."""
    after: str = ""
    """The same lines, changed; empty if the code is not known."""
    place: Place | None = None
    """The first of these lines."""
    rechecked: bool = False
    """Whether the changed backward was run on the captured values, and on others, and is right."""
    error: float | None = None
    """Relative error after the correction."""
    derived: str = ""
    """The right gradient as the engine derives it from the forward, in code, if that was tried and
    nothing better is known."""


@dataclass(frozen=True, eq=False)
class Heat:
    """Jacobians of one output by one input, for pictures: (size of y, size of x), both flat."""

    analytic: Array
    numeric: Array
    y_shape: tuple[int, ...]
    x_shape: tuple[int, ...]
    bound: Array | None = None
    """Error of each element of `numeric`."""
    inputs: tuple[tuple[str, Any], ...] = ()
    """The point: each input's name, and its value, or the text of what is no array."""
    input: int = 0
    """Which of them it is."""


@dataclass(frozen=True, eq=False)
class Finding:
    """One mistake: where, which, how sure, what to do."""

    level: Level
    subject: str
    """Name of what is wrong: "Attention", "blocks.0.norm"."""
    kind: str
    """What that is: "torch.autograd.Function"."""
    input: str
    """The input or parameter whose gradient is wrong; empty if it is none in particular."""
    names: tuple[Name, ...]
    """Names that fit, the best first; at least one ("unnamed")."""
    place: Place | None = None
    """The line to look at."""
    error: float | None = None
    """How wrong: relative to the gradient's own size."""
    tolerance: float | None = None
    """What rounding and differences explain."""
    evidence: tuple[str, ...] = ()
    """Sentences with numbers."""
    correction: Correction | None = None
    victims: tuple[str, ...] = ()
    """What is wrong only because this is."""
    heat: Heat | None = None
    table: tuple[tuple[str, ...], ...] = field(default=())
    """Rows to show with it (a flow table), the first one its heading."""

    @property
    def name(self) -> Name:
        """The best name."""
        return self.names[0]

    @property
    def title(self) -> str:
        """The best name in words."""
        return self.name.mistake.title
