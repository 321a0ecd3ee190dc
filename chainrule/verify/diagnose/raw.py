"""The backward reads an input as it is where a function of it belongs (logits for probabilities).

Then what comes back is an affine function of that input. If the true gradient is not, the backward
cannot be reading what it should.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.verify.diagnose import measure
from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.subject import Array

_AFFINE = 1e-9
_CURVED = 1e-3


def raw(case: Case) -> Iterator[Guess]:
    """A guess where nothing plainer is known: the input itself is read."""
    x = case.x
    if not case.whole or x.dtype.kind != "f" or x.size < 2:
        return
    rng = np.random.default_rng(31)
    gs = measure.only(case.ys, case.found.output, measure.drawn(rng, case.found.y_shape))
    step, t = 0.5 * measure.drawn(rng, x.shape), measure.drawn(rng, x.shape)
    points = [measure.replaced(case.xs, case.k, x + s * step) for s in (-1.0, 0.0, 1.0)]
    try:
        bars = [measure.pulled(case.subject, p, gs, case.k) for p in points]
        slopes = [np.asarray(measure.slope(case.subject, p, case.k, t, gs)[0]) for p in points]
    except Exception:  # as the user's code raises it: of such values it is not meant
        return
    if _bend(slopes) > _CURVED and _bend(bars) < _AFFINE and _moves(bars):
        yield guess(
            "wrong_value",
            19.0,
            f"{case.input}_bar is an affine function of {case.input}; the true gradient is not",
            f"{case.input} is read as it is where a function of it belongs",
            formula=f"use what the forward computes from {case.input} for {case.input}_bar",
        )


def _bend(values: list[Array]) -> float:
    """Second difference, relative to the largest value."""
    a, b, c = values
    size = max([float(np.linalg.norm(v)) for v in values])
    return float(np.linalg.norm(a - 2 * b + c)) / size if size else 0.0


def _moves(values: list[Array]) -> bool:
    a, _, c = values
    return float(np.linalg.norm(c - a)) > _CURVED * float(np.linalg.norm(c) + np.linalg.norm(a))
