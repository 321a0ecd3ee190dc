"""Right for some elements, wrong for others: which ones, and how they are wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.verify.diagnose import constants, measure, where
from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.diagnose.scale import ratio
from chainrule.verify.evidence import Jacobians
from chainrule.verify.subject import Array

_MOST = 0.8
"""A region is part of the whole: no more than this share of the elements is wrong."""
_FULL = 64
"""Elements of an input, and of an output, for which whole Jacobians are made once more."""
_ROUGH = 1e-7
"""Error of such a Jacobian, relative to its largest element."""
_ENOUGH = 4
"""So many elements at least make it no chance that a region fits."""


def region(case: Case) -> Iterator[Guess]:
    """Guesses for gradients that are wrong for some elements of x, or for some of g: of the input
    as captured, where the point at hand has so few that any region could fit."""
    if not case.has_all_elements:
        return
    case = _captured_case(case) or case
    relevant = ~(case.tiny_N & case.tiny_A)
    wrong = ~case.agrees & relevant
    for axis, side in ((0, case.input), (1, "g")):
        chosen = np.asarray(wrong.any(axis=axis))
        matters = np.asarray(relevant.any(axis=axis))
        count = int(np.sum(matters))
        if 0 < int(np.sum(chosen)) <= _MOST * count and count > 1:
            yield from _guess_of_region(case, axis, side, chosen, matters)


def _captured_case(case: Case) -> Case | None:
    """The same output and input at the captured point, if that has enough elements, and not too
    many; None where nothing is wrong there."""
    k, output = case.k, case.jacobians.output
    xs = measure.captured_point(case.subject)
    if case.x.size >= where.MANY or not where.MANY <= np.size(xs[k]) <= _FULL:
        return None
    ys = measure.outputs(case.subject, xs)
    if ys[output].size > _FULL or np.asarray(xs[k]).dtype.kind != "f":
        return None
    numeric = measure.jacobian(case.subject, xs, k, output)
    units = np.eye(ys[output].size).reshape(-1, *ys[output].shape)
    rows = [
        measure.pull(case.subject, xs, measure.one_output(ys, output, unit), k).ravel()
        for unit in units
    ]
    if any(row.shape != (numeric.shape[1],) for row in rows):
        return None
    bound = np.full(numeric.shape, _ROUGH * float(np.abs(numeric).max(initial=0.0)))
    shapes = ys[output].shape, np.shape(xs[k])
    found = Case(case.evidence, Jacobians(xs, k, output, np.stack(rows), numeric, bound, *shapes))
    return found if found.finite and not bool(found.agrees.all()) else None


def _guess_of_region(
    case: Case, axis: int, side: str, chosen: Array, matters: Array
) -> Iterator[Guess]:
    shape = case.jacobians.x_shape if axis == 0 else case.jacobians.y_shape
    chosen, matters = chosen.reshape(shape), matters.reshape(shape)
    found = where.describe_set(chosen, matters, _values(case))
    text = found.text if found else where.single(chosen)
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


def _rank(exact: bool, by_sign: bool, found: where.Where | None, count: int) -> float:
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
