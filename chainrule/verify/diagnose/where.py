"""Which elements? A set of elements of an array, told by value or by position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chainrule.verify.subject import Array

MANY = 8
"""Of so many elements a threshold parts no set by chance."""


@dataclass(frozen=True, eq=False)
class Where:
    """A set of elements in words."""

    text: str
    mask: Array
    sign: bool = False
    """Whether only a sign decides."""
    plain: bool = False
    """Whether it is a set that people write down: the last row, the diagonal."""


def describe_set(chosen: Array, matters: Array, values: Mapping[str, Array]) -> Where | None:
    """The plainest set that is `chosen` among the elements that matter; None if no set is known.

    `chosen` and `matters` are masks of one shape. `values` are arrays by name; those of this shape
    are asked for their signs and thresholds.
    """
    fitting = {
        n: v for n, v in values.items() if v.shape == chosen.shape and v.dtype.kind in "fbiu"
    }
    for where in (*_by_value(chosen, matters, fitting), *_by_place(chosen.shape)):
        if np.array_equal(where.mask & matters, chosen & matters):
            return where
    return None


def _by_value(chosen: Array, matters: Array, values: Mapping[str, Array]) -> Iterator[Where]:
    for name, value in values.items():
        if value.dtype.kind == "b":
            yield Where(f"{name} is True", value)
            yield Where(f"{name} is False", ~value)
            continue
        yield Where(f"{name} < 0", value < 0, sign=True)
        yield Where(f"{name} > 0", value > 0, sign=True)
        yield Where(f"{name} == 0", value == 0)
        yield Where(f"{name} != 0", value != 0)
    for name, value in values.items():
        if value.dtype.kind == "f":
            yield from _thresholds(name, value, chosen, matters)
            yield from _between(name, value, chosen, matters)


def _thresholds(name: str, value: Array, chosen: Array, matters: Array) -> Iterator[Where]:
    """`x < t` and `x > t` for a t between two values, if enough lie on either side."""
    inside, outside = value[chosen & matters], value[~chosen & matters]
    if min(inside.size, outside.size) < 2 or inside.size + outside.size < 6:
        return
    for sign, low, high in (("<", inside, outside), (">", outside, inside)):
        if low.max() < high.min():
            between = (float(low.max()), float(high.min()))
            mask = value <= between[0] if sign == "<" else value >= between[1]
            text = f"{name} {sign} t, t between {between[0]:.3g} and {between[1]:.3g}"
            yield Where(text, mask, plain=inside.size + outside.size >= MANY)


def _between(name: str, value: Array, chosen: Array, matters: Array) -> Iterator[Where]:
    """`s < x < t`, for elements that lie together with others on either side of them, or for the
    others that lie so."""
    inside, outside = value[chosen & matters], value[~chosen & matters]
    if min(inside.size, outside.size) < 2 or inside.size + outside.size < MANY:
        return
    for within, beside in ((inside, outside), (outside, inside)):
        low, high = float(within.min()), float(within.max())
        apart = (beside < low) | (beside > high)
        if apart.all() and (beside < low).any() and (beside > high).any():
            mask = (value >= low) & (value <= high)
            here = f"{name} from {low:.3g} to {high:.3g}"
            text = (
                here if within is inside else f"all {name} but those from {low:.3g} to {high:.3g}"
            )
            yield Where(text, mask if within is inside else ~mask, plain=True)


def _by_place(shape: tuple[int, ...]) -> Iterator[Where]:
    index = np.indices(shape)
    for axis, extent in enumerate(shape):
        at = index[axis]
        if extent > 1:
            named = f"along axis {axis}" if len(shape) > 1 else ""
            yield Where(f"the last element {named}".strip(), at == extent - 1, plain=True)
            yield Where(f"the first element {named}".strip(), at == 0, plain=True)
            yield Where(f"all but the first {named}".strip(), at > 0)
            yield Where(f"all but the last {named}".strip(), at < extent - 1)
            yield Where(f"odd elements {named}".strip(), at % 2 == 1)
            yield Where(f"even elements {named}".strip(), at % 2 == 0)
    yield from _by_pair(index, shape)
    yield from _borders(index, shape)
    yield from _cuts(index, shape)


def _by_pair(index: Array, shape: tuple[int, ...]) -> Iterator[Where]:
    for a, b in pairwise(range(len(shape))):
        i, j, named = index[a], index[b], f"of axes {a} and {b}"
        yield Where(f"the diagonal {named}", i == j)
        yield Where(f"all but the diagonal {named}", i != j)
        yield Where(f"above the diagonal {named}", i < j)
        yield Where(f"below the diagonal {named}", i > j)
        yield Where(f"the diagonal and above {named}", i <= j)
        yield Where(f"the diagonal and below {named}", i >= j)


def _borders(index: Array, shape: tuple[int, ...]) -> Iterator[Where]:
    last = np.array(shape).reshape((-1,) + (1,) * len(shape)) - 1
    for first in range(len(shape)):
        edge = ((index[first:] == 0) | (index[first:] == last[first:])).any(axis=0)
        yield Where("the border", edge)
        yield Where("all but the border", ~edge)


def _cuts(index: Array, shape: tuple[int, ...]) -> Iterator[Where]:
    for axis, extent in enumerate(shape):
        for cut in range(2, extent - 1):
            yield Where(f"index {cut} and above along axis {axis}", index[axis] >= cut)
            yield Where(f"index below {cut} along axis {axis}", index[axis] < cut)
    for axis, extent in enumerate(shape):
        for at in range(1, extent - 1):
            yield Where(f"index {at} along axis {axis}", index[axis] == at)


def single(chosen: Array) -> str:
    """One element by its index, if it is one; else empty."""
    if int(np.sum(chosen)) != 1:
        return ""
    at = tuple([int(i[0]) for i in np.nonzero(chosen)])
    return f"the element {list(at)}"
