"""What can be said of a wrong gradient that no rule explains, and of any: facts, with numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.verify.diagnose.case import Case, agreement
from chainrule.verify.diagnose.scale import ratio
from chainrule.verify.evidence import Evidence, Trial

_POINTS = 3
"""Points that are named; others are counted."""


def sentences(evidence: Evidence, k: int | None, case: Case | None, named: bool) -> tuple[str, ...]:
    """Facts on the gradient of input k."""
    said = list(_points([t for t in evidence.trials if k is None or t.input == k]))
    said += [b.says for b in evidence.behaviours if b.input in (k, None)]
    if case is not None and case.finite:
        said += _difference(case)
        if not named:
            said += _shape_of(case)
    return tuple(dict.fromkeys(said))


def _points(trials: list[Trial]) -> Iterator[str]:
    wrong = list(dict.fromkeys([t.point for t in trials if t.verdict == "wrong"]))
    all_right = dict.fromkeys([t.point for t in trials if t.verdict == "right"])
    right = [p for p in all_right if p not in wrong]
    if wrong:
        every = "" if right else "every point tried: "
        tail = f"; right at these: {_list_points(right)}" if right else ""
        yield f"wrong at {every or 'these points: '}{_list_points(wrong)}{tail}"


def _list_points(points: list[str]) -> str:
    more = f", and {len(points) - _POINTS} more" if len(points) > _POINTS else ""
    return ", ".join(points[:_POINTS]) + more


def _difference(case: Case) -> Iterator[str]:
    i, j = np.unravel_index(int(np.argmax(np.abs(case.D))), case.D.shape)
    if not case.has_all_elements:
        yield f"the backward says {case.A[i, j]:.6g} where {case.N[i, j]:.6g} is true"
        return
    y_at = [int(n) for n in np.unravel_index(int(i), case.jacobians.y_shape)]
    x_at = [int(n) for n in np.unravel_index(int(j), case.jacobians.x_shape)]
    yield (
        f"d y{y_at} / d {case.input}{x_at}: the backward says {case.A[i, j]:.6g}, "
        f"true is {case.N[i, j]:.6g}"
    )


def _shape_of(case: Case) -> Iterator[str]:
    yield f"{agreement(case):.0%} of the elements of the Jacobian agree"
    rank = int(np.linalg.matrix_rank(case.D, tol=1e-6 * float(np.linalg.norm(case.D, 2))))
    yield f"the difference has rank {rank} (size {case.D.shape[0]} by {case.D.shape[1]})"
    c = ratio(case.A, case.N)
    if c is not None:
        yield f"the nearest multiple of the right gradient is {c:.4g} times it"
