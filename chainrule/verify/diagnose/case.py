"""One pair of an input and an output whose Jacobians differ, as the rules look at it; and a guess,
one mistake that would have given what was seen.

A is what the backward says, N what is true, D = A - N; all of shape (size of y, size of x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from chainrule.verify.diagnose import measure
from chainrule.verify.evidence import Evidence, Jacobians
from chainrule.verify.finding import Name
from chainrule.verify.place import Place
from chainrule.verify.subject import Array, Subject

_FLOOR, _CAP = 1e-6, 0.02
"""A rule explains a difference if it leaves less than what the error of N explains, taken as no
less than the first and no more than the second share of the difference."""
_NEGLIGIBLE = 1e-7
"""An element is zero if it is less than this share of the largest one (or its error bound)."""


@dataclass(frozen=True, eq=False)
class Case:
    """What a rule is asked about."""

    evidence: Evidence
    jacobians: Jacobians

    @property
    def subject(self) -> Subject:
        """Whose gradient it is."""
        return self.evidence.subject

    @property
    def k(self) -> int:
        """Index of the input."""
        return self.jacobians.input

    @property
    def xs(self) -> tuple[Any, ...]:
        """The point."""
        return self.jacobians.xs

    @property
    def input(self) -> str:
        """The input's name."""
        return self.subject.inputs[self.k].name

    @property
    def A(self) -> Array:  # noqa: N802
        """What the backward says."""
        return self.jacobians.analytic

    @property
    def N(self) -> Array:  # noqa: N802
        """What is true."""
        return self.jacobians.numeric

    @property
    def D(self) -> Array:  # noqa: N802
        """A - N."""
        return self.jacobians.difference

    @cached_property
    def size(self) -> float:
        """Norm of the difference."""
        return float(np.linalg.norm(self.D))

    @cached_property
    def noise(self) -> float:
        """Norm of the error of N, rounding included."""
        rounding = 1e-13 * max(float(np.linalg.norm(self.N)), float(np.linalg.norm(self.A)))
        return float(np.linalg.norm(self.jacobians.bound)) + rounding

    @cached_property
    def finite(self) -> bool:
        """Whether both Jacobians are numbers everywhere, and differ."""
        return bool(np.isfinite(self.A).all() and np.isfinite(self.N).all()) and self.size > 0

    @cached_property
    def has_all_elements(self) -> bool:
        """Whether the Jacobians are those of all elements, so that they have axes."""
        sizes = (math.prod(self.jacobians.y_shape), math.prod(self.jacobians.x_shape))
        return self.A.shape == sizes and np.shape(self.xs[self.k]) == self.jacobians.x_shape

    @cached_property
    def ys(self) -> tuple[Array, ...]:
        """All outputs at the point."""
        return measure.outputs(self.subject, self.xs)

    @cached_property
    def y(self) -> Array:
        """The output that the Jacobians are of."""
        return self.ys[self.jacobians.output]

    @cached_property
    def x(self) -> Array:
        """The input at the point."""
        return np.asarray(self.xs[self.k])

    def tensor(self, matrix: Array) -> Array:
        """A matrix with the axes of y, then those of x."""
        return matrix.reshape(self.jacobians.y_shape + self.jacobians.x_shape)

    def unexplained(self, prediction: Array) -> float:
        """Share of the difference that `prediction` for A does not explain."""
        return float(np.linalg.norm(self.A - prediction)) / self.size if self.size else math.inf

    def slack(self, gain: float = 1.0) -> float:
        """Share that may be left by a prediction that multiplies errors of N by `gain`."""
        share = 8.0 * (1.0 + abs(gain)) * self.noise / self.size if self.size else 0.0
        return min(max(share, _FLOOR), _CAP)

    def explains(self, prediction: Array, gain: float = 1.0) -> bool:
        """Whether `prediction` for A leaves nothing but the error of N."""
        return self.unexplained(prediction) <= self.slack(gain)

    @cached_property
    def tiny_N(self) -> Array:  # noqa: N802
        """Where N is zero."""
        return self._tiny(self.N)

    @cached_property
    def tiny_A(self) -> Array:  # noqa: N802
        """Where A is zero."""
        return self._tiny(self.A)

    @cached_property
    def agrees(self) -> Array:
        """Where A is N."""
        return self._tiny(self.D, max(_peak(self.N), _peak(self.A)))

    def _tiny(self, matrix: Array, peak: float | None = None) -> Array:
        largest = _peak(matrix) if peak is None else peak
        limit = np.maximum(4.0 * self.jacobians.bound, _NEGLIGIBLE * largest)
        return cast("Array", np.abs(matrix) <= limit)

    def others(self) -> Sequence[int]:
        """Indices of the other inputs that are arrays of real numbers."""
        return [i for i, x in enumerate(self.xs) if i != self.k and _real(x)]


def _peak(matrix: Array) -> float:
    return float(np.max(np.abs(matrix), initial=0.0))


def _real(value: Any) -> bool:
    return isinstance(value, np.ndarray) and cast("Array", value).dtype.kind == "f"


def agreement(case: Case) -> float:
    """Share of elements of the Jacobian at which both agree."""
    return float(np.mean(case.agrees)) if case.agrees.size else 0.0


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
    left: float = 0.0
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
