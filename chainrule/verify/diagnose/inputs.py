"""One input gets what belongs to another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.verify.diagnose import measure
from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.subject import Array

_MOST = 200


def exchange(case: Case) -> Iterator[Guess]:
    """Guesses for a gradient that is another input's."""
    for other in case.others():
        x = np.asarray(case.xs[other])
        if (
            x.shape != case.jacobians.x_shape
            or x.size > _MOST
            or not case.subject.inputs[other].wanted
        ):
            continue
        theirs = _jacobian_of_other(case, other)
        if theirs.shape == case.A.shape and case.explains(theirs):
            yield _exchange(case, other, case.unexplained(theirs))
            return


def _jacobian_of_other(case: Case, other: int) -> Array:
    for j in case.evidence.jacobians:
        same = len(j.xs) == len(case.xs) and all(a is b for a, b in zip(j.xs, case.xs, strict=True))
        if j.input == other and j.output == case.jacobians.output and same:
            return j.numeric
    return measure.jacobian(case.subject, case.xs, other, case.jacobians.output)


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
