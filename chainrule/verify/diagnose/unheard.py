"""What comes in for one of several outputs has no part in what comes back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.guess import Guess, guess


def unheard(case: Case) -> Iterator[Guess]:
    """Guesses where A = 0 for one output, and not for others: another one's cotangent is in its
    place, or nothing is."""
    o = case.found.output
    formula = f"add what comes back from y[{o}] to {case.input}_bar"
    because = f"A = 0 for y[{o}], and not for other outputs"
    other = _in_place(case)
    if other is not None:
        yield guess(
            "wrong_value",
            0.4,
            f"{because}; A - N of y[{other}] is N of y[{o}]",
            f"the cotangent of y[{other}] is read where that of y[{o}] belongs",
            left=case.left(0 * case.N),
            formula=f"read the cotangent of y[{o}] where that of y[{other}] is read for it",
        )
    yield guess(
        "missing_term",
        0.5,
        because,
        f"the cotangent of y[{o}] has no part in {case.input}_bar",
        left=case.left(0 * case.N),
        formula=formula,
    )


def _in_place(case: Case) -> int | None:
    """The output for which comes back, besides what should, what should for this one."""
    for found in case.evidence.jacobians:
        same = found.input == case.k and found.xs is case.xs and found.output != case.found.output
        if same and found.difference.shape == case.N.shape:
            rest = float(np.linalg.norm(found.difference - case.N))
            if rest <= case.slack() * case.size:
                return found.output
    return None
