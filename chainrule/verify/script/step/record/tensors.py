"""What is asked of the tensors of one library where a step is run again."""

from __future__ import annotations

import abc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from chainrule.verify.script.step.record.tape import Entry, things_in

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Exited:
    """A number or array that was moved on its way out."""

    at: int
    """How many entries there were by then."""
    x: Values
    way: Values
    """Which way it was moved."""


class Tensors(abc.ABC):
    """Tensors of one library, and its calls made again."""

    # --- calls made again

    @contextmanager
    def replaying(self) -> Generator[None]:
        """Within it calls are made again that may draw random numbers."""
        yield

    @abc.abstractmethod
    def call(self, entry: Entry, values: Mapping[int, Any], cut: int | None) -> Sequence[Any]:
        """What a call makes of values; it is open if it belongs to a cut."""

    @abc.abstractmethod
    def leaf(self, x: Any, by: Any = None) -> Any:
        """A variable of its own with the value of `x`, moved `by` so much."""

    @abc.abstractmethod
    def sever(self, x: Any) -> tuple[Any, Any]:
        """A leaf with the value of `x` that shares no memory with it; what calls are given in its
        place."""

    @abc.abstractmethod
    def gradients(
        self, ys: Sequence[Any], gs: Sequence[Any] | None, xs: Sequence[Any]
    ) -> Sequence[Any]:
        """Gradients of `ys`, whose own are `gs` (of one number, 1); None for what they do not
        depend on."""

    @abc.abstractmethod
    def norm(self, x: Any) -> float:
        """Euclidean norm of a tensor, in float64."""

    @abc.abstractmethod
    def scale(self, x: Any, by: float) -> Any:
        """A gradient, multiplied, without a graph."""

    @abc.abstractmethod
    def number(self, x: Any) -> float:
        """The one number in a tensor."""

    # --- constants

    @abc.abstractmethod
    def has(self, x: Any) -> bool:
        """Whether it is a tensor, or an array that calls are given, of real floats."""

    @abc.abstractmethod
    def values(self, x: Any) -> Values:
        """A copy of a tensor's values."""

    @abc.abstractmethod
    def linear(
        self, x: Any, slope: Values, exits: Sequence[Exited], share: float
    ) -> tuple[Callable[..., Any], float]:
        """A constant as a function of tensors that have left: its value, and `share` times its
        slope the way they were moved; and the rounding of its dtype."""

    @final
    def is_float(self, x: Any) -> bool:
        """Whether it is a float or a tensor of floats."""
        return isinstance(x, float) or self.has(x)

    @final
    def constants(self, entry: Entry) -> list[Any]:
        """Floats among an entry's arguments, which depend on nothing."""
        return list(filter(self.is_float, things_in((entry.args, entry.kwargs))))

    @final
    def copy(self, x: Any) -> Values:
        """A constant, as it is now."""
        return np.asarray(x, np.float64) if isinstance(x, float) else self.values(x)
