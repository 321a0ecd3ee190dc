"""A transposed matrix between elementwise factors: y = f(x W), backward g f' W for g f' W^T.

Then A = S N^T / S with a diagonal S: each element of A is the transposed one of N times s_i / s_j.
There are fewer s than elements, so that chance has no part in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.subject import Array

_GAIN = 10.0
_SPARE = 2
"""Elements off the diagonal beyond those that choose the s, at least."""


def turned_between(case: Case) -> Iterator[Guess]:
    """A guess for an operand that is transposed inside of a layer."""
    if not case.whole or case.found.y_shape != case.found.x_shape or not case.x.ndim:
        return
    matters = ~case.tiny_A & ~case.tiny_N.T
    s, kin = _scales(case.A, case.N.T, matters)
    off = np.count_nonzero(matters) - np.count_nonzero(np.diag(matters))
    if off - (len(s) - kin) < _SPARE:
        return
    prediction = case.N.T * s[:, None] / s[None, :]
    if case.explains(prediction, _GAIN):
        yield guess(
            "transposed",
            6.5,
            "A equals the transposed of N between two diagonal matrices (elementwise factors), "
            f"leaving {case.left(prediction):.0e} of the difference",
            "a matrix inside is applied where its transposed belongs",
            left=case.left(prediction),
            formula=f"apply the transposed of the matrix that {case.input}_bar is multiplied by",
        )


def _scales(a: Array, n: Array, matters: Array) -> tuple[Array, int]:
    """s with a_ij = n_ij s_i / s_j along the ways from the first row of each kin to the others, and
    how many kins there are: sets of rows that elements tie together."""
    s, kin = np.zeros(len(a)), 0
    for first in range(len(a)):
        if s[first]:
            continue
        s[first], queue, kin = 1.0, [first], kin + 1
        while queue:
            j = queue.pop()
            for i in np.nonzero(matters[:, j] & (s == 0))[0].tolist():
                s[i] = s[j] * a[i, j] / n[i, j]
                queue.append(i)
    return s, kin
