"""Functions of `Value`s as subjects: arrays without axes outside, Values inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.errors import GradientError, describe
from chainrule.scalar import Value
from chainrule.tree import Structure, flatten
from chainrule.verify.place import Place
from chainrule.verify.subject import Array, Input, Subject
from chainrule.verify.user_code import argument_names, name_of, place_of


@dataclass(frozen=True, eq=False)
class OfValues(Subject):
    """`f` of trees of Values, whose leaves are the inputs."""

    name: str
    inputs: tuple[Input, ...]
    f: Callable[..., Any]
    structure: Structure
    kind: str = "function of Values"
    place: Place | None = None
    backward_place: Place | None = None

    def _ran(self, xs: Sequence[Any]) -> tuple[list[Value], list[Any]]:
        """The Values that go in, and those that come out."""
        given = [Value(float(x)) for x in xs]
        leaves, _ = flatten(self.f(*self.structure.unflatten(given)))
        outs = [y for y in leaves if isinstance(y, Value | float | int)]
        if not outs:
            raise GradientError(f"{self.name} returned {describe(leaves)}: no Value")
        return given, outs

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The data of the results, in float64."""
        _, outs = self._ran(xs)
        return tuple([np.asarray(float(y.data if isinstance(y, Value) else y)) for y in outs])

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """What `backward` of the sum of g * y leaves in `grad`."""
        given, outs = self._ran(xs)
        total: Any = sum([y * float(g) for y, g in zip(outs, gs, strict=True)])
        if isinstance(total, Value):
            total.backward()
        return tuple([np.asarray(float(x.grad)) for x in given])

    @property
    def fixed(self) -> str:
        """Single numbers have one shape."""
        return "Values are single numbers"


def holds_values(args: Sequence[Any]) -> bool:
    """Whether any argument is a Value or holds one."""
    return any(isinstance(x, Value) for x in flatten(list(args))[0])


def subject_of_values(f: Callable[..., Any], args: Sequence[Any]) -> OfValues:
    """The subject of a function whose arguments are (trees of) Values and numbers.

    Raises `GradientError` for anything else among them.
    """
    leaves, structure = flatten(list(args))
    wrong = [x for x in leaves if not isinstance(x, Value | float | int)]
    if wrong:
        raise GradientError(
            f"a function of Values is given Values and numbers, not {describe(wrong[0])}"
        )
    numbers = [x.data if isinstance(x, Value) else x for x in leaves]
    names = argument_names(f, len(args))
    if len(leaves) != len(args):
        names = tuple([f"{names[0]} leaf {i}" for i in range(len(leaves))])
    inputs = [
        Input(n, np.asarray(float(x)), wanted=True) for n, x in zip(names, numbers, strict=True)
    ]
    return OfValues(name_of(f), tuple(inputs), f, structure, place=place_of(f))
