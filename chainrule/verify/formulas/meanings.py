"""What a value of a program may mean: a formula of some of its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, TypeAlias, cast

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula, arguments
from chainrule.verify.formulas.values import is_mask
from chainrule.verify.formulas.words import unlikeness

Key: TypeAlias = tuple[int, str]
"""The number of a line of a program, and the text of an expression or a name there."""
_FOREIGN = 0.8
_MARGIN = 0.3
_MERE = 1e-3
_LEAST = 3
"""Ops of a formula: nearly all is a change away from less."""


@dataclass(frozen=True, eq=False)
class Item:
    """A value of a program that may be an argument; `is_squared`: or its square, where it is a
    share."""

    key: Key | None
    """None for a number of the text."""
    text: str
    points: tuple[Array, ...]
    elements: str
    is_squared: bool = False

    def at(self, values: Mapping[Key, Array]) -> Array:
        """At a point, if it is there."""
        if self.key is None:
            return self.points[0]
        return values[self.key] ** 2 if self.is_squared else values[self.key]

    @property
    def shape(self) -> tuple[int, ...]:
        """At all points."""
        return self.points[0].shape


@dataclass(frozen=True, eq=False)
class Meaning:
    """A formula of some arguments, in one of its variants, reduced in one way."""

    formula: Formula
    items: tuple[Item, ...]
    variant: int
    reduction: str
    cost: float = 0.0
    """How little the names of its arguments say so, on average."""

    @cached_property
    def is_named(self) -> bool:
        """Whether names say it of nearly all of its arguments."""
        takes = arguments(self.formula)
        unlike = [item_unlikeness(a.name, x) for a, x in zip(takes, self.items, strict=True)]
        return sum(u > _FOREIGN for u in unlike) <= len(unlike) // 3

    def needs_all(self, points: Sequence[Mapping[Key, Array]]) -> bool:
        """Whether each argument makes a difference, where others stay as they are."""
        for one in self.places():
            differ = False
            for here, there in pairwise(points):
                a, b = self.value(here), self.value({**here, one: there[one]})
                if a is None or b is None or a.shape != b.shape or not is_near(a, b):
                    differ = True
            if not differ:
                return False
        return True

    def places(self) -> list[Key]:
        """Of its arguments."""
        return [item.key for item in self.items if item.key is not None]

    def value(self, at: Mapping[Key, Array]) -> Array | None:
        """At another point."""
        try:
            args = [x.at(at) for x in self.items]
        except KeyError:
            return None
        rows = list(islice(variants(self.formula, args), self.variant + 1))
        return reduced(rows[-1], self.reduction) if len(rows) > self.variant else None


def variants(formula: Formula, args: Sequence[Array]) -> Iterator[Array]:
    """Values of a formula, each of several ones by itself."""
    plain = [float(x) if x.ndim == 0 else x for x in args]
    try:
        with np.errstate(all="ignore"):
            made: Any = formula.value(*plain)
            yield from _flat(made)
    except Exception:  # the shapes do not fit, or a number is none that it takes
        return


def _flat(made: Any) -> Iterator[Array]:
    if isinstance(made, tuple) or hasattr(made, "__next__"):
        for each in cast("Iterator[Any]", made):
            yield from _flat(each)
    else:
        yield np.asarray(made, np.float64)


class _Counted(np.ndarray):
    """An array that counts what is computed with it."""

    count = 0

    def __array_ufunc__(self, f: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        _Counted.count += method == "__call__"
        plain = [np.asarray(x) if isinstance(x, _Counted) else x for x in inputs]
        kwargs.pop("out", None)
        made = getattr(f, method)(*plain, **kwargs)
        return made.view(_Counted) if isinstance(made, np.ndarray) else made


def is_trivial(meaning: Meaning, at: Mapping[Key, Array]) -> bool:
    """Whether a formula takes element by element fewer than three ops."""
    if any(a.axes for a in arguments(meaning.formula)):
        return False
    args = [x.at(at) for x in meaning.items]
    counted = [x.view(_Counted) if x.ndim else x for x in args]
    _Counted.count = 0
    for _ in islice(variants(meaning.formula, counted), 1):
        pass
    return _Counted.count < _LEAST


def reduced(x: Array, how: str) -> Array | None:
    """What losses are made of it."""
    if how == "":
        return x
    name, *rest = how.split()
    if x.ndim == 0 or (rest and x.ndim < 2):
        return None
    if rest == ["-1", "mean"]:
        return np.asarray(x.sum(-1).mean())
    axis = int(rest[0]) if rest else None
    return np.asarray(x.mean(axis) if name == "mean" else x.sum(axis))


def item_unlikeness(name: str, x: Item) -> float:
    """0 for a name that says the same, more for others; numbers of the text last."""
    if x.key is None:
        return 0.3 if name.startswith("eps") else 0.7
    own = unlikeness(name, x.text) + (0.0 if x.text.isidentifier() else 0.05)
    is_odd = own > _MARGIN and x.elements == "float" and is_mask(x.points[0])
    return own + 0.5 * is_odd


def is_near(a: Array, b: Array) -> bool:
    """Whether one is the other, but for little."""
    size = float(np.abs(b).max(initial=0))
    return float(np.abs(a - b).max(initial=0)) <= _MERE * size
