"""A = N diag(s) or A = diag(s) N: every element of x_bar, or of g, has a factor of its own.

Where each element of y depends on one element of x only, the derivative itself can be read off and
compared as a formula: "the backward multiplies by 1 - x**2, right is 1 - y**2".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from chainrule.verify.diagnose import measure
from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.guess import Guess, Mend, Pull, guess
from chainrule.verify.diagnose.monomials import Formula, Term, fit
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import CLOSE


def scaled_elements(case: Case) -> Iterator[Guess]:
    """Guesses for gradients with a factor of their own for each element."""
    if not case.whole:
        return
    local = _local(case)
    if local is not None:
        yield from _by_formula(case, *local)
        return
    for axis, side in ((0, "x_bar"), (1, "g")):
        s = _factors(case, axis)
        if s is not None:
            yield from _by_factors(case, axis, side, s)
            return


def values_at(
    case: Case, xs: Sequence[Any], ys: Sequence[Array], shape: tuple[int, ...]
) -> dict[str, Array]:
    """Real values at hand that fill `shape` when broadcast, by name: the input, y, other inputs."""
    names = [i.name for i in case.subject.inputs]
    order = [case.k, *[i for i in range(len(xs)) if i != case.k]]
    output = ("y" if len(ys) == 1 else f"y[{case.found.output}]", ys[case.found.output])
    candidates = [(names[case.k], xs[case.k]), output, *[(names[i], xs[i]) for i in order[1:]]]
    found: dict[str, Array] = {}
    for name, value in candidates:
        array = cast("Array", value) if isinstance(value, np.ndarray) else np.zeros(0)
        if array.dtype.kind == "f" and array.size > 1:
            filled = _filled(array.astype(np.float64), shape)
            if filled is not None:
                found[name] = filled
    return found


def _filled(value: Array, shape: tuple[int, ...]) -> Array | None:
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        return None


def _local(case: Case) -> tuple[Array, Array, tuple[int, ...]] | None:
    """Derivatives as A and N say, element by element of y, if each depends on one x only."""
    shape = case.found.y_shape
    if _filled(case.x, shape) is None or case.x.ndim > len(shape):
        return None
    index = np.broadcast_to(np.arange(case.x.size).reshape(case.x.shape), shape).ravel()
    rows = np.arange(index.size)
    elsewhere = np.ones(case.N.shape, bool)
    elsewhere[rows, index] = False
    if np.any(elsewhere & ~(case.tiny_N & case.tiny_A)):
        return None
    return case.A[rows, index].reshape(shape), case.N[rows, index].reshape(shape), shape


def _by_formula(case: Case, a: Array, n: Array, shape: tuple[int, ...]) -> Iterator[Guess]:
    values = values_at(case, case.xs, case.ys, shape)
    close = max(case.slack() * case.size / float(np.linalg.norm(case.N) or 1.0), 1e-8)
    seen, true = fit(a, values, close), fit(n, values, close)
    if seen is None:
        return
    name = case.input
    if true is None:
        what = f"what {name}_bar multiplies g by is {seen}, which is not the derivative"
        rank = 7.2 if _is_value(seen) else 12.0
        yield guess("wrong_value", rank, f"A is {seen} at every element", what)
        return
    code, detail = _compared(seen, true)
    yield guess(
        code,
        7.0,
        f"A is {seen}, N is {true}, at every element",
        detail,
        formula=f"{name}_bar = g * ({true})",
        mend=_formula(case, true),
    )


def _is_value(seen: Formula) -> bool:
    """Whether a formula is a value at hand, as it is."""
    return (
        len(seen.terms) == 1
        and seen.terms[0].c == 1.0
        and len(seen.names) == 1
        and (seen.terms[0].powers[0][1] == 1.0)
    )


def _compared(seen: Formula, true: Formula) -> tuple[str, str]:
    """What makes one formula of the other."""
    mine, theirs = [{t.powers: t.c for t in f.terms} for f in (seen, true)]
    if len(theirs) > 1 and mine.keys() < theirs.keys():
        lost = [t for t in true.terms if t.powers not in mine]
        if all(mine[p] == theirs[p] for p in mine):
            return "missing_term", f"the term {lost[0]} is missing"
    if mine.keys() > theirs.keys() and all(mine[p] == theirs[p] for p in theirs):
        more = [t for t in seen.terms if t.powers not in theirs]
        return "extra_term", f"the term {more[0]} is too much"
    if mine.keys() == theirs.keys():
        turned = [Term(theirs[p], p) for p in mine if mine[p] == -theirs[p]]
        if turned:
            return "sign", f"the term {turned[0]} has the wrong sign"
        off = [Term(theirs[p], p) for p in mine if mine[p] != theirs[p]]
        return "factor", f"the term {off[0]} has the wrong factor"
    return "wrong_value", f"{seen} is used where {true} belongs"


def _formula(case: Case, true: Formula) -> Mend:
    """g times the formula, summed over what was broadcast."""

    def mend(pull: Pull, xs: Sequence[Any], gs: Sequence[Array]) -> Array:
        ys = measure.outputs(case.subject, xs)
        g = gs[case.found.output]
        full = g * true.at(values_at(case, xs, ys, g.shape))
        return _summed_to(full, np.shape(xs[case.k]))

    return mend


def _summed_to(full: Array, shape: tuple[int, ...]) -> Array:
    extra = full.ndim - len(shape)
    full = full.sum(axis=tuple(range(extra)))
    axes = tuple([i for i, n in enumerate(shape) if n == 1])
    return np.asarray(full.sum(axis=axes, keepdims=True)) if axes else np.asarray(full)


def _factors(case: Case, axis: int) -> Array | None:
    """s of A = N diag(s) (axis 0) or A = diag(s) N (axis 1), 1 where N is 0; None if it is not."""
    square = np.sum(case.N * case.N, axis=axis)
    if not np.any(square):
        return None
    safe = np.where(square > 0, square, 1.0)
    s = np.where(square > 0, np.sum(case.A * case.N, axis=axis) / safe, 1.0)
    prediction = case.N * (s[None, :] if axis == 0 else s[:, None])
    gain = float(np.max(np.abs(s), initial=1.0))
    return s if case.explains(prediction, min(gain, 100.0)) else None


def _by_factors(case: Case, axis: int, side: str, s: Array) -> Iterator[Guess]:
    shape = case.found.x_shape if axis == 0 else case.found.y_shape
    factors, values = (
        s.reshape(shape),
        values_at(case, case.xs, case.ys, case.found.x_shape if axis == 0 else case.found.y_shape),
    )
    name, side = case.input, f"{case.input}_bar" if axis == 0 else side
    found = fit(factors, values, CLOSE, sums=False)
    if found is not None and found.names:
        yield guess(
            "wrong_value",
            6.0,
            f"A is N with every element of {side} times {found}",
            f"{side} has the factor {found} too much",
            formula=f"divide every element of {side} by {found}",
            mend=_divided(case, found) if axis == 0 else None,
        )
        return
    constant = _constant_along(factors) if found is None else None
    if constant is not None:
        yield guess(
            "factor",
            9.0,
            f"A is N with a factor for each slice of {side} that is the same along axis "
            f"{constant}, between {s.min():.4g} and {s.max():.4g}",
            f"{name}_bar lacks a factor, or has one too much, that is the same along axis "
            f"{constant}: a statistic of that axis",
            formula=f"multiply {side} by the statistic of axis {constant} that is missing",
        )


def _constant_along(factors: Array) -> int | None:
    for axis in reversed(range(factors.ndim)):
        spread = np.ptp(factors, axis=axis)
        if factors.shape[axis] > 1 and np.max(spread) <= CLOSE * float(np.max(np.abs(factors))):
            return axis
    return None


def _divided(case: Case, found: Formula) -> Mend:
    def mend(pull: Pull, xs: Sequence[Any], gs: Sequence[Array]) -> Array:
        ys = measure.outputs(case.subject, xs)
        values: Mapping[str, Array] = values_at(case, xs, ys, np.shape(xs[case.k]))
        return pull(xs, gs) / found.at(values)

    return mend
