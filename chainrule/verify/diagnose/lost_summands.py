"""Elements that meet in a sum: a contribution is lost, or what couples them has another factor.

Where one array feeds many elements of the output (a bias, an index that occurs twice, windows that
overlap), its gradient is a sum. An assignment in place of an addition leaves its last summand: A is
N here and 0 there. Where y has the shape of x, elements of N off its diagonal are what elements do
to each other: if those of A are a multiple of them, and those on the diagonal are not, one term is
wrong, and the term that goes element by element is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from chainrule.verify.diagnose import constants, measure
from chainrule.verify.diagnose.case import Case, Guess, guess
from chainrule.verify.diagnose.scale import named_factors, ratio
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import SAME


def lost_summands(case: Case) -> Iterator[Guess]:
    """Guesses for sums of which only one summand is left."""
    if not case.has_all_elements:
        return
    gone = ~case.tiny_N & case.tiny_A
    if not np.any(gone) or not np.all(case.agrees | gone):
        return
    kept = ~case.tiny_N & ~gone
    columns = gone.any(axis=0) & kept.any(axis=0)
    if np.any(columns) and not np.any(gone.any(axis=0) & ~columns):
        yield from _guesses_of_summands(case, kept, gone, np.asarray(columns))


def _guesses_of_summands(case: Case, kept: Array, gone: Array, columns: Array) -> Iterator[Guess]:
    """Which elements along an axis lost their contribution, or all that are off the diagonal."""
    for axis, extent in enumerate(case.jacobians.y_shape):
        if extent < 2:
            continue
        index = np.indices(case.jacobians.y_shape)[axis].ravel()
        which = _which(index, kept[:, columns], gone[:, columns])
        if which:
            yield from _guesses_of_axis(case, axis, which, float(np.mean(gone[:, columns])))
            return
    if case.jacobians.y_shape == case.jacobians.x_shape and not np.any(
        kept & ~np.eye(*kept.shape, dtype=bool)
    ):
        yield _elementwise(case, gone)
    count = int(np.sum(gone))
    order: Array = np.arange(len(kept))
    replaced = _which(order, kept[:, columns], gone[:, columns]) == "last"
    yield guess(
        "overwritten",
        2.2 if replaced else 6.5,
        f"A is N in {int(np.sum(kept))} elements and 0 in {count} others that add up with them",
        f"some contributions to {case.input}_bar are lost",
        formula=f"add up all contributions to {case.input}_bar (`+=`, np.add.at)",
    )


def _elementwise(case: Case, gone: Array) -> Guess:
    """A backward that goes element by element where the forward does not: nothing replaced what is
    missing, it was never there."""
    return guess(
        "missing_term",
        2.3,
        f"A is N on the diagonal and 0 in all {int(np.sum(gone))} other elements that N has",
        f"{case.input}_bar is made element by element; the terms that couple elements are missing",
        formula=f"add the term of {case.input}_bar that sums over the coupled elements",
    )


def _which(index: Array, kept: Array, gone: Array) -> str:
    """Whether in each column the last or the first index along an axis is all that is left."""
    high, low = index.max() + 1, -1
    kept_first = np.where(kept, index[:, None], high).min(axis=0)
    kept_last = np.where(kept, index[:, None], low).max(axis=0)
    gone_first = np.where(gone, index[:, None], high).min(axis=0)
    gone_last = np.where(gone, index[:, None], low).max(axis=0)
    if np.any(kept_first != kept_last):
        return ""
    if np.all(kept_first > gone_last):
        return "last"
    return "first" if np.all(kept_last < gone_first) else ""


def _guesses_of_axis(case: Case, axis: int, which: str, share: float) -> Iterator[Guess]:
    """The guesses that contributions along an axis overwrite each other."""
    name, y_shape, x_shape = case.input, case.jacobians.y_shape, case.jacobians.x_shape
    shared = len(x_shape) < len(y_shape) or (x_shape != y_shape and 1 in x_shape)
    because = (
        f"of the contributions to each element of {name}_bar along axis {axis} of g only the "
        f"{which} is there; {share:.0%} of N is zero in A"
    )
    formula = f"add up the contributions to {name}_bar along axis {axis} of g"
    apart = "a loop over this axis overwrites; an index into it takes one element"
    detail = f"each contribution to {name}_bar replaces the one before"
    rank = 2.2 if which == "last" or not shared else 2.4
    yield guess("overwritten", rank, because, detail, formula=f"{formula} (`+=`)", apart=apart)
    if shared:
        detail = f"{name} was broadcast along axis {axis}; one element of g is taken, not their sum"
        formula += f": .sum(axis={axis})"
        yield guess("not_summed", 2.3, because, detail, formula=formula, apart=apart)


_FEW = 6
"""Fewer elements off the diagonal are multiples of others too easily."""


def coupling(case: Case) -> Iterator[Guess]:
    """A guess for a factor, or a sign, of what couples elements."""
    if (
        not case.has_all_elements
        or case.jacobians.y_shape != case.jacobians.x_shape
        or np.iscomplexobj(case.A)
    ):
        return
    between = ~np.eye(*case.N.shape, dtype=bool)
    off = between & ~case.tiny_N
    c = ratio(case.A[off], case.N[off]) if int(np.sum(off)) >= _FEW else None
    if (
        c is None
        or constants.is_near(c, 1.0)
        or abs(c) < SAME
        or not case.tiny_A[between & ~off].all()
    ):
        return
    left = float(np.linalg.norm(case.A[off] - c * case.N[off])) / case.size
    if left > case.slack(c) or case.explains(c * case.N, c):
        return
    known = named_factors(case, c, partial(_factor_at, case))
    flipped = constants.is_near(c, -1.0)
    says = f"{known[0].text} = {c:.4g}" if known else f"{c:.6g}"
    yield guess(
        "sign" if flipped else "factor",
        5.2 if flipped or known else 11.5,
        f"off the diagonal A = {c:.6g} N, on it not, leaving {left:.0e} of the difference",
        f"what couples the elements of {case.input} has "
        + ("the wrong sign" if flipped else f"the factor {says}"),
        left=left,
        formula=f"{'turn the sign of' if flipped else f'divide by {says}'} the term of "
        f"{case.input}_bar that sums over elements",
    )


def _factor_at(case: Case, xs: Sequence[Any]) -> float:
    """The same factor at another point."""
    o, ys = case.jacobians.output, measure.outputs(case.subject, xs)
    units = np.eye(ys[o].size).reshape(-1, *ys[o].shape)
    said = [measure.pull(case.subject, xs, measure.one_output(ys, o, g), case.k) for g in units]
    true = measure.jacobian(case.subject, xs, case.k, o)
    off = ~np.eye(*true.shape, dtype=bool)
    return ratio(np.stack([row.ravel() for row in said])[off], true[off]) or 0.0
