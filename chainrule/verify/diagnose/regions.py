"""Right for some elements, wrong for others: which ones, by value or by position, and how wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chainrule.verify.diagnose import constants
from chainrule.verify.diagnose.case import Case, Guess, guess
from chainrule.verify.diagnose.scale import ratio
from chainrule.verify.subject import Array

_MOST = 0.8
"""A region is part of the whole: no more than this share of the elements is wrong."""
_ENOUGH = 4
"""So many elements at least make it no chance that a region fits."""


def region(case: Case) -> Iterator[Guess]:
    """Guesses for gradients that are wrong for some elements of x, or for some of g."""
    if not case.has_all_elements:
        return
    relevant = ~(case.tiny_N & case.tiny_A)
    wrong = ~case.agrees & relevant
    for axis, side in ((0, case.input), (1, "g")):
        chosen = np.asarray(wrong.any(axis=axis))
        matters = np.asarray(relevant.any(axis=axis))
        count = int(np.sum(matters))
        if 0 < int(np.sum(chosen)) <= _MOST * count and count > 1:
            yield from _guess_of_region(case, axis, side, chosen, matters)


def _guess_of_region(
    case: Case, axis: int, side: str, chosen: Array, matters: Array
) -> Iterator[Guess]:
    shape = case.jacobians.x_shape if axis == 0 else case.jacobians.y_shape
    chosen, matters = chosen.reshape(shape), matters.reshape(shape)
    found = describe_set(chosen, matters, _values(case))
    text = found.text if found else single(chosen)
    if not text:
        return
    how, exact = _error_in_words(case, axis, chosen.ravel())
    by_sign = found is not None and found.sign
    counted = f"{int(np.sum(chosen))} of {int(np.sum(matters))} elements"
    yield guess(
        "one_sided" if by_sign else "region",
        _rank(exact, by_sign, found, int(np.sum(matters))),
        f"A = N for all other elements of {side}; {counted} are wrong: {how}",
        f"wrong where {text}" if by_sign or "==" in text else f"wrong at {text} of {side}",
        formula=f"handle {text} of {side}: there {how}",
    )


def _rank(exact: bool, by_sign: bool, found: Where | None, count: int) -> float:
    if not exact:
        return 22.0 if by_sign else 24.0
    plain = by_sign or (found is not None and found.plain)
    return (2.45 if by_sign else 2.6) if plain and count >= _ENOUGH else 10.0


def _values(case: Case) -> dict[str, Array]:
    named = {case.input: case.x}
    for i, value in enumerate(case.xs):
        if i != case.k and isinstance(value, np.ndarray):
            named[case.subject.inputs[i].name] = value
    return {**named, **_differences(case), "y": case.y}


def _differences(case: Case) -> dict[str, Array]:
    """What |a - b| and max(a, b) decide by."""
    inputs = case.subject.inputs
    return {
        f"{case.input} - {inputs[i].name}": case.x - np.asarray(case.xs[i])
        for i in case.others()
        if np.shape(case.xs[i]) == case.x.shape
    }


def _error_in_words(case: Case, axis: int, chosen: Array) -> tuple[str, bool]:
    """How wrong it is there, in words, and whether that is all there is to say."""
    A, N = (case.A[:, chosen], case.N[:, chosen]) if axis == 0 else (case.A[chosen], case.N[chosen])
    size = float(np.linalg.norm(A - N))
    if float(np.linalg.norm(A)) <= case.slack() * size:
        return "the gradient is 0 and should not be", True
    if float(np.linalg.norm(N)) <= case.slack() * size:
        return "the gradient should be 0 and is not", True
    c = ratio(A, N)
    if c is not None and float(np.linalg.norm(A - c * N)) <= case.slack(c) * size:
        if constants.is_near(c, -1.0):
            return "its sign is flipped", True
        return f"it is {c:.6g} times the right one", True
    return f"off by up to {float(np.max(np.abs(A - N))):.3g}", False


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
    for found in (*_by_value(chosen, matters, fitting), *_by_place(chosen.shape)):
        if np.array_equal(found.mask & matters, chosen & matters):
            return found
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
