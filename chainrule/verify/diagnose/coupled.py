"""Elements that meet in a sum or a mean: what couples them has another factor than it must.

Where y has the shape of x, elements of N off its diagonal are what elements do to each other. If
those of A are a multiple of them, and those on the diagonal are not, one term is wrong, and the
term that goes element by element is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from chainrule.verify.diagnose import constants, measure
from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.diagnose.scale import named_factors, ratio
from chainrule.verify.tolerances import SAME

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
    what = "sign" if constants.is_near(c, -1.0) else "factor"
    says = f"{known[0].text} = {c:.4g}" if known else f"{c:.6g}"
    yield guess(
        what,
        5.2 if what == "sign" or known else 11.5,
        f"off the diagonal A = {c:.6g} N, on it not, leaving {left:.0e} of the difference",
        f"what couples the elements of {case.input} has "
        + ("the wrong sign" if what == "sign" else f"the factor {says}"),
        left=left,
        formula=f"{'turn the sign of' if what == 'sign' else f'divide by {says}'} the term of "
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
