"""What a backward returns: gradients in tuples, lists and dicts, each with the way to it.

`return dx, {"W": dW}`, `return loss, [dW0, dW1], [db0, db1]`, `return [(dW0, db0), (dW1, db1)]`:
the gradient of an array is found by the names and indices on its way; those that no name assigns
go, in order, to the arrays of their shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

import numpy as np

from chainrule.tree import Structure, children_of
from chainrule.verify.arrays.members import Way
from chainrule.verify.arrays.naming_conventions import gradient_of, is_spelled
from chainrule.verify.arrays.values import is_float


@dataclass(frozen=True, eq=False)
class Returned:
    """A gradient, and the way to it from what the backward returned: the name in the `return` or
    the index, then keys and indices of containers."""

    way: Way
    value: Any

    def belongs_to(self, way: Way, names: Sequence[str]) -> str | None:
        """Which of the `names` of the array at `way` this gradient is called after, if any."""
        own = names_on(self.way)
        if not own:
            return None
        indices = indices_on(way)
        candidates = [*names]
        if indices:
            numbered = "".join(map(str, indices))
            exact = indices_on(self.way)[-len(indices) :] == indices
            candidates = [*(names if exact else ()), *[n + numbered for n in names]]
        return next((n for n in candidates if gradient_of(own[-1], [n]) is not None), None)


def names_on(way: Way) -> list[str]:
    """The names among the steps of a way."""
    return [key for _, key in way.steps if isinstance(key, str)]


def indices_on(way: Way) -> tuple[int, ...]:
    """The indices of lists and tuples among the steps of a way."""
    return tuple([key for _, key in way.steps if isinstance(key, int)])


def is_container(x: Any) -> bool:
    """Whether `x` is a tree of arrays; a list or tuple that holds no array is one of numbers."""
    keys, parts = children_of(x)
    if parts is None or x is None:
        return False
    of_numbers = isinstance(x, list | tuple) and not keys
    return not of_numbers or any(is_float(part) or is_container(part) for part in parts)


def gradients_in(x: Any, way: Way) -> Iterator[Returned]:
    """The gradients in what was returned at `way`, one by one; None is none."""
    if is_container(x):
        keys, parts = children_of(x)
        for step, part in zip(
            _steps(cast(Any, type(x)), keys or count()), parts or (), strict=False
        ):
            yield from gradients_in(part, way.then(step))
    elif x is not None:
        yield Returned(way, x)


def ways_of(structure: Structure, way: Way) -> Iterator[Way]:
    """The way from `way` to each leaf of a tree, in order."""
    if structure.kind is None:
        yield way
        return
    steps = _steps(structure.kind, structure.keys or count())
    for step, child in zip(steps, structure.children, strict=False):
        yield from ways_of(child, way.then(step))


def _steps(kind: type[Any], keys: Iterable[Any]) -> Iterator[Way]:
    """The step to each child of a container: attributes of named tuples and dataclasses."""
    for key in keys:
        named = isinstance(key, str) and not issubclass(kind, dict)
        yield Way().attribute(key) if named else Way().item(key)


def match_gradients(
    returned: Sequence[Returned], ways: Sequence[Way], names: Sequence[Sequence[str]]
) -> list[Returned | None]:
    """For the array at each way, of these names, the gradient that is called after it and after no
    other one: `dw` after `w`, if there is a `W` too."""
    fits = [
        [(r, n) for r in returned if (n := r.belongs_to(way, called)) is not None]
        for way, called in zip(ways, names, strict=True)
    ]
    spelled = [[(r, n) for r, n in fit if is_spelled(names_on(r.way)[-1], n)] for fit in fits]
    found: list[Returned | None] = []
    for exact, fit in zip(spelled, fits, strict=True):
        known = [r for r, _ in exact if _occurrences(r, spelled) == 1]
        known += [r for r, _ in fit if _occurrences(r, fits) == 1]
        found.append(known[0] if known else None)
    return found


def _occurrences(r: Returned, fits: Sequence[Sequence[tuple[Returned, str]]]) -> int:
    return sum(any(r is other for other, _ in fit) for fit in fits)


def by_shape(
    returned: Sequence[Returned], shapes: Sequence[tuple[int, ...]]
) -> list[Returned | None]:
    """For an array of each shape a gradient: in order among those of its shape, then in order among
    those that are left, which have the shape of none."""
    rest, found = list(returned), list[Returned | None]()
    for shape in shapes:
        fit = next((r for r in rest if np.shape(r.value) == shape), None)
        if fit is not None:
            rest.remove(fit)
        found.append(fit)
    left = iter(rest)
    return [next(left, None) if r is None else r for r in found]
