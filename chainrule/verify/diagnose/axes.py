"""A is N with its elements elsewhere: transposed, of another input, summed along another axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from chainrule.verify.diagnose import measure
from chainrule.verify.diagnose.case import Case, Guess, Mend, Pull, agreement, guess
from chainrule.verify.subject import Array

Swap = tuple[int, int]
_MOST_SWAPS = 60
_ROWS = 40
_SHARED = 0.1
"""A backward that sums along another axis shares this much of its Jacobian with the right one: what
it leaves alone, and what it does not reach."""


def transposition(case: Case) -> Iterator[Guess]:
    """Guesses for a Jacobian whose axes (of y, of x, or one of each) are swapped."""
    if not case.has_all_elements:
        return
    N, y_axes = case.tensor(case.N), len(case.jacobians.y_shape)
    for swaps in _swaps(N.shape):
        moved = _swap_axes(N, swaps).reshape(case.N.shape)
        if case.explains(moved):
            yield _transposition(case, swaps, y_axes, case.unexplained(moved))
            return


def _swaps(shape: Sequence[int]) -> list[tuple[Swap, ...]]:
    """Sets of disjoint pairs of equal axes, small sets first."""
    pairs = [p for p in combinations(range(len(shape)), 2) if shape[p[0]] == shape[p[1]] > 1]
    doubles = [(a, b) for a, b in combinations(pairs, 2) if not set(a) & set(b)]
    triples = [(a, b, c) for a, b, c in combinations(pairs, 3) if len({*a, *b, *c}) == 6]
    return [*[(p,) for p in pairs], *doubles, *triples][:_MOST_SWAPS]


def _swap_axes(array: Array, swaps: Sequence[Swap]) -> Array:
    order = list(range(array.ndim))
    for a, b in swaps:
        order[a], order[b] = order[b], order[a]
    return array.transpose(order)


def _transposition(case: Case, swaps: Sequence[Swap], y_axes: int, left: float) -> Guess:
    """The guess that axes are swapped, and which ones."""
    of_x = [(a - y_axes, b - y_axes) for a, b in swaps if a >= y_axes]
    of_y = [(a, b) for a, b in swaps if b < y_axes]
    mixed = [(a, b - y_axes) for a, b in swaps if a < y_axes <= b]
    name, less = case.input, len(case.jacobians.x_shape) - y_axes
    rows = [f"axis {a} of y and axis {b} of x" for a, b in mixed]
    rows += [f"axes {a} and {b} of {name}_bar" for a, b in of_x]
    rows += [f"axes {a} and {b} of g" for a, b in of_y]
    what = " and ".join(rows)
    because = f"A equals N with {what} swapped, leaving {left:.0e} of the difference"
    if mixed:
        formula = f"apply the transposed of what is applied to g for {name}_bar (W.T for W)"
        detail = "the backward applies J where J^T belongs"
        return guess("transposed", 6.0, because, detail, left=left, formula=formula)
    # One axis more or less means that a sum or a broadcast decides where elements go.
    reduces = less < 0 if not of_x else less > 0 and not of_y
    return guess(
        "wrong_axis" if reduces else "transposed",
        5.0,
        because,
        f"{what} are swapped",
        left=left,
        formula=f"swap {what}" + (": reduce along the other axis" if reduces else ""),
        mend=_swap_back(of_x, of_y),
    )


def _swap_back(of_x: Sequence[Swap], of_y: Sequence[Swap]) -> Mend:
    def mend(pull: Pull, xs: Sequence[Any], gs: Sequence[Array]) -> Array:
        turned = [np.ascontiguousarray(_swap_axes(g, of_y)) if of_y else g for g in gs]
        return _swap_axes(pull(xs, turned), of_x)

    return mend


def other_axis(case: Case) -> Iterator[Guess]:
    """A sum that goes along another axis than it must, seen by which elements meet at all.

    An axis a of y is tied to an axis b of x if an element of y depends on those elements of x only
    whose index along b is its own index along a. A sum along b unties it.
    """
    shape = case.jacobians.y_shape + case.jacobians.x_shape
    if not case.has_all_elements or not shape:
        return
    true, seen = [_ties(case, zero, shape) for zero in (case.tiny_N, case.tiny_A)]
    if true == seen or not np.any(~case.tiny_A):
        return
    lost, new = true - seen, seen - true
    if agreement(case) < _SHARED and not _is_a_sum(case):
        return
    if lost:
        yield _other_axis(case, lost, new)
    elif _same_kind(case):
        yield _less_coupled(case, new)


def _is_a_sum(case: Case) -> bool:
    """Whether the elements of A that are zero in N are those of a sum: x_bar_j = u_j sum_i v_i g_i
    has proportional columns, as far as they can be compared."""
    new = np.where(case.tiny_N, case.A, 0.0)[:_ROWS, :_ROWS]
    filled = (new != 0) & ~case.tiny_A[:_ROWS, :_ROWS]
    compared = 0
    for a, b in combinations(range(new.shape[1]), 2):
        both = filled[:, a] & filled[:, b]
        u, v = new[both, a], new[both, b]
        if u.size > 1:
            compared += 1
            if abs(float(u @ v)) < (1 - 1e-6) * float(np.linalg.norm(u) * np.linalg.norm(v)):
                return False
    return compared > 2


def _ties(case: Case, zero: Array, shape: Sequence[int]) -> set[Swap]:
    y_axes = len(case.jacobians.y_shape)
    at = np.nonzero(~case.tensor(zero))
    pairs = [(a, b) for a in range(y_axes) for b in range(y_axes, len(shape))]
    equal = [(a, b) for a, b in pairs if shape[a] == shape[b] > 1]
    return {(a, b - y_axes) for a, b in equal if len(at[0]) and bool(np.all(at[a] == at[b]))}


def _other_axis(case: Case, lost: set[Swap], new: set[Swap]) -> Guess:
    """The guess that a sum or a mean goes along another axis than the forward's."""
    prediction = _tied_elsewhere(case, min(lost), new)
    exact = prediction is not None and case.explains(prediction)
    left = case.unexplained(prediction) if exact and prediction is not None else 0.0
    summed = ", ".join(sorted({str(a) for a, _ in lost}))
    because = (
        f"elements that differ along axis {summed} do not meet in the forward, but do in the "
        "backward"
    )
    because += f"; this leaves {left:.0e} of the difference" if exact else ""
    return guess(
        "wrong_axis",
        4.0 if exact else 8.5,
        because,
        f"{case.input}_bar is summed along axis {summed}",
        left=left,
        formula=f"do not sum along axis {summed}"
        + (f": sum along axis {min(new)[0]} instead" if new else ""),
    )


def _tied_elsewhere(case: Case, lost: Swap, new: set[Swap]) -> Array | None:
    """N with its values where they would be if the sum went along the other axis."""
    if len(new) != 1 or next(iter(new))[1] != lost[1]:
        return None
    N, y_axes = case.tensor(case.N), len(case.jacobians.y_shape)
    other = next(iter(new))[0]
    values = N.sum(axis=y_axes + lost[1], keepdims=True)
    index = np.indices(N.shape)
    return (values * (index[other] == index[y_axes + lost[1]])).reshape(case.N.shape)


def _same_kind(case: Case) -> bool:
    return case.jacobians.y_shape == case.jacobians.x_shape and bool(np.any(case.agrees))


def _less_coupled(case: Case, new: set[Swap]) -> Guess:
    axes = ", ".join(sorted({str(a) for a, _ in new}))
    share = float(np.mean(~case.tiny_N & case.tiny_A))
    return guess(
        "missing_term",
        14.0,
        f"in the forward all elements along axis {axes} depend on each other, in the backward "
        f"none: {share:.0%} of the Jacobian is zero in A and not in N",
        f"the sum along axis {axes} is missing",
        formula=f"add the term that sums over axis {axes} (its derivative reaches every element)",
    )


_MOST = 200


def exchange(case: Case) -> Iterator[Guess]:
    """Guesses for a gradient that is another input's."""
    for other in case.others():
        x = np.asarray(case.xs[other])
        wanted = case.subject.inputs[other].wanted
        if x.shape != case.jacobians.x_shape or x.size > _MOST or not wanted:
            continue
        theirs = measure.jacobian(case.subject, case.xs, other, case.jacobians.output)
        if theirs.shape == case.A.shape and case.explains(theirs):
            yield _exchange(case, other, case.unexplained(theirs))
            return


def _exchange(case: Case, other: int, left: float) -> Guess:
    a, b = case.input, case.subject.inputs[other].name
    return guess(
        "wrong_input",
        4.5,
        f"the Jacobian for {a} is the true one of {b}, leaving {left:.0e} of the difference",
        f"{a} gets what belongs to {b}",
        left=left,
        formula=f"return the gradients in the order of the inputs: {b}_bar for {b}",
        mend=lambda pull, xs, gs: measure.pull(case.subject, xs, gs, other),
    )
