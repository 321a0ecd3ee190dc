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
_MANY = 8
"""Of so many elements a threshold parts no set by chance."""


@dataclass(frozen=True, eq=False)
class Where:
    """A set of elements in words."""

    text: str
    mask: Array
    sign: bool = False
    """Whether only a sign decides."""
    plain: bool = False
    """Whether it is a set that people write down: the last row, small values."""


def region(case: Case) -> Iterator[Guess]:
    """Guesses for gradients that are wrong for some elements of x, or for some of g."""
    if not case.has_all_elements:
        return
    relevant = ~(case.tiny_N & case.tiny_A)
    wrong = ~case.agrees & relevant
    for axis, side in ((0, case.input), (1, "g")):
        chosen, matters = np.asarray(wrong.any(axis=axis)), np.asarray(relevant.any(axis=axis))
        count = int(np.sum(matters))
        if 0 < int(np.sum(chosen)) <= _MOST * count and count > 1:
            yield from _guess_of_region(case, axis, side, chosen, matters)


def _guess_of_region(
    case: Case, axis: int, side: str, chosen: Array, matters: Array
) -> Iterator[Guess]:
    """The guess that the gradient is wrong where values or positions have something in common."""
    shape = case.jacobians.x_shape if axis == 0 else case.jacobians.y_shape
    known = describe_set(chosen.reshape(shape), matters.reshape(shape), _values(case))
    if known is None:
        return
    how, exact = _error_in_words(case, axis, chosen)
    count = int(np.sum(matters))
    yield guess(
        "one_sided" if known.sign else "region",
        _rank(exact, known, count),
        f"A = N for all other elements of {side}; {int(np.sum(chosen))} of {count} elements are "
        f"wrong: {how}",
        f"wrong where {known.text}" if known.sign else f"wrong at {known.text} of {side}",
        formula=f"handle {known.text} of {side}: there {how}",
    )


def _rank(exact: bool, known: Where, count: int) -> float:
    if not exact:
        return 22.0 if known.sign else 24.0
    plain = (known.sign or known.plain) and count >= _ENOUGH
    return (2.45 if known.sign else 2.6) if plain else 10.0


def _values(case: Case) -> dict[str, Array]:
    """Arrays that may decide; of two inputs also their difference, by which |a - b| and max(a, b)
    do."""
    inputs = case.subject.inputs
    others = {inputs[i].name: np.asarray(case.xs[i]) for i in case.others()}
    differences = {
        f"{case.input} - {name}": case.x - x
        for name, x in others.items()
        if x.shape == case.x.shape
    }
    return {case.input: case.x, **others, **differences, "y": case.y}


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
        flipped = constants.is_near(c, -1.0)
        return "its sign is flipped" if flipped else f"it is {c:.6g} times the right one", True
    return f"off by up to {float(np.max(np.abs(A - N))):.3g}", False


def describe_set(chosen: Array, matters: Array, values: Mapping[str, Array]) -> Where | None:
    """The plainest set that is `chosen` among the elements that matter; None if no set is known.

    `chosen` and `matters` are masks of one shape. `values` are arrays by name; those of this shape
    are asked for their signs and thresholds.
    """
    fitting = {n: v for n, v in values.items() if v.shape == chosen.shape and v.dtype.kind == "f"}
    for found in (*_by_value(chosen, matters, fitting), *_by_place(chosen.shape)):
        if np.array_equal(found.mask & matters, chosen & matters):
            return found
    return None


def _by_value(chosen: Array, matters: Array, values: Mapping[str, Array]) -> Iterator[Where]:
    for name, value in values.items():
        yield Where(f"{name} < 0", value < 0, sign=True)
        yield Where(f"{name} > 0", value > 0, sign=True)
        yield Where(f"{name} == 0", value == 0)
    for name, value in values.items():
        yield from _thresholds(name, value, chosen, matters)


def _thresholds(name: str, value: Array, chosen: Array, matters: Array) -> Iterator[Where]:
    """`x < t` and `x > t` for a t between two values, if enough lie on either side."""
    inside, outside = value[chosen & matters], value[~chosen & matters]
    if min(inside.size, outside.size) < 2 or inside.size + outside.size < 6:
        return
    for sign, low, high in (("<", inside, outside), (">", outside, inside)):
        last, first = float(low.max()), float(high.min())
        if last < first:
            mask = value <= last if sign == "<" else value >= first
            text = f"{name} {sign} t, t between {last:.3g} and {first:.3g}"
            yield Where(text, mask, plain=inside.size + outside.size >= _MANY)


def _by_place(shape: tuple[int, ...]) -> Iterator[Where]:
    """Sets by index, each with what is not in it."""
    index = np.indices(shape)
    last = np.array(shape).reshape((-1,) + (1,) * len(shape)) - 1
    for axis, extent in enumerate(shape):
        at, along = index[axis], f"along axis {axis}" * (len(shape) > 1)
        if extent > 1:
            yield from _with_rest(f"the last element {along}".strip(), at == extent - 1, plain=True)
            yield from _with_rest(f"the first element {along}".strip(), at == 0, plain=True)
            yield from _with_rest(f"every second element {along}".strip(), at % 2 == 1)
    for a, b in pairwise(range(len(shape))):
        for where, of in ("on", np.equal), ("above", np.less), ("below", np.greater):
            yield from _with_rest(f"{where} the diagonal of axes {a} and {b}", of(*index[[a, b]]))
    for first in range(len(shape)):
        inside = (index[first:] > 0) & (index[first:] < last[first:])
        yield from _with_rest("the border", ~np.asarray(inside.all(axis=0)))
    for axis, extent in enumerate(shape):
        for cut in range(1, extent - 1):
            yield from _with_rest(f"index {cut} and above along axis {axis}", index[axis] >= cut)
            yield from _with_rest(f"index {cut} along axis {axis}", index[axis] == cut)


def _with_rest(text: str, mask: Array, plain: bool = False) -> Iterator[Where]:
    yield Where(text, mask, plain=plain)
    yield Where(f"all but {text}", ~mask)
