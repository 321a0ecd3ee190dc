"""A guess: one mistake that would have given the Jacobian that was seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chainrule.verify.finding import Name
from chainrule.verify.place import Place
from chainrule.verify.subject import Array

Pull = Callable[[Sequence[Any], Sequence[Array]], Array]
"""(xs, gs) -> x_bar of the one input that a guess is about."""
Mend = Callable[[Pull, Sequence[Any], Sequence[Array]], Array]
"""(the user's pull, xs, gs) -> the right x_bar, if the guess is right."""


@dataclass(frozen=True, eq=False)
class Guess:
    """One name that fits, how well it fits, and the correction that follows from it."""

    name: Name
    rank: float
    """How plain an explanation it is: of two that fit, that of the smaller rank is likelier."""
    unexplained: float = 0.0
    """Share of the difference of both Jacobians that it does not explain."""
    formula: str = ""
    """What to do, in words and numbers."""
    mend: Mend | None = None
    """The formula as a function, to be tried."""
    place: Place | None = None
    """The forward's line whose undoing is wrong, if that is known."""


def guess(
    code: str,
    rank: float,
    because: str,
    detail: str = "",
    *,
    left: float = 0.0,
    formula: str = "",
    mend: Mend | None = None,
    place: Place | None = None,
    apart: str = "",
) -> Guess:
    """A `Guess` from its parts."""
    return Guess(Name(code, because, detail, apart, rank), rank, left, formula, mend, place)
