"""What was measured of one subject: the input of every rule that names a mistake."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from chainrule.verify.subject import Array, Subject


@dataclass(frozen=True, eq=False)
class Trial:
    """One comparison of the backward with an independent computation."""

    point: str
    """Which point, to read: "as captured", "second shape (3, 5) (5, 7)", "negative", "float32"."""
    cotangent: str
    """Which cotangent: "random", "strided", "expanded", "zero"."""
    input: int
    """Index of the input whose gradient was compared."""
    error: float
    """Disagreement, relative to the gradient's own size."""
    tolerance: float
    """What differences and rounding explain, by an error estimate made at this very point."""
    verdict: Literal["right", "wrong", "kink", "unsure"]
    """`unsure`: the numbers at this point are too bad to tell; never a finding."""


@dataclass(frozen=True, eq=False)
class Jacobians:
    """Both Jacobians of one output by one input, at one (shrunk) point where they differ.

    `analytic[i, j]` is d y_i / d x_j as the backward says it, built from unit cotangents;
    `numeric` the same from differences. Both (size of y, size of x), float64 or complex128.
    """

    xs: tuple[Any, ...]
    """The point: a value for each input."""
    input: int
    output: int
    analytic: Array
    numeric: Array
    bound: Array
    """Error of `numeric`, element by element."""
    y_shape: tuple[int, ...]
    x_shape: tuple[int, ...]
    rows: Array | None = None
    """Flat indices of the elements of y, if only some are shown; `y_shape` is then their number."""
    columns: Array | None = None
    """The same of x."""

    @property
    def difference(self) -> Array:
        """analytic - numeric."""
        return self.analytic - self.numeric

    @property
    def relative(self) -> float:
        """Frobenius norm of the difference by that of the larger Jacobian."""
        scale = max(float(np.linalg.norm(self.analytic)), float(np.linalg.norm(self.numeric)))
        return float(np.linalg.norm(self.difference)) / scale if scale else 0.0


NOTES = ("straight_through", "not_summed", "lengths")
"""Behaviours that are good to know, but not wrong."""


@dataclass(frozen=True)
class Behaviour:
    """Something that a backward did which no correct one does, seen without differences.

    `code` is a mistake's: not_linear, ignores_cotangent, contiguity, not_deterministic, writes,
    wrong_shape, dropped, raises, nan, precision, size, one_sided, region, stale, straight_through.
    """

    code: str
    input: int | None
    says: str
    """In words and numbers."""
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    """Numbers for rules, by name."""


@dataclass(eq=False)
class Evidence:
    """All that was seen of a subject."""

    subject: Subject
    trials: list[Trial] = field(default_factory=list[Trial])
    behaviours: list[Behaviour] = field(default_factory=list[Behaviour])
    jacobians: list[Jacobians] = field(default_factory=list[Jacobians])
    """At most one for each pair of input and output that disagree."""
    skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What was not looked at, and why."""
    evaluations: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> bool:
        """Whether anything is certainly wrong."""
        return self.is_off or any(b.code not in NOTES for b in self.behaviours)

    @property
    def is_off(self) -> bool:
        """Whether a gradient has wrong values."""
        return any(t.verdict == "wrong" for t in self.trials)

    def wrong_inputs(self) -> tuple[int, ...]:
        """Indices of inputs whose gradient is wrong, in order."""
        trials = {t.input for t in self.trials if t.verdict == "wrong"}
        told = {b.input for b in self.behaviours if b.code not in NOTES}
        return tuple(sorted(trials | {k for k in told if k is not None}))
