"""What failed, at a point as small as the failure allows; and no failure where no element fails."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.measure import jacobian, pick
from chainrule.verify.measure.noise import Base, base_at
from chainrule.verify.measure.points import sizes
from chainrule.verify.measure.probes import probe
from chainrule.verify.measure.run import Run
from chainrule.verify.tolerances import SAME

Failed = tuple[Base, tuple[int, ...]]
"""A point, and the inputs whose gradient is wrong there."""

SECONDS = 10.0
"""A Jacobian that would take longer is shown in part."""

_OF_POINTS = ("size", "one_sided", "region")
"""Behaviours that compare points."""


def jacobians(run: Run, seen: Sequence[Failed]) -> None:
    """Build Jacobians for every input that is wrong at one of the points seen, the smallest first.

    Where no element of them differs, the failure was rounding, and is taken back.
    """
    failed = [(base, wrong) for base, wrong in seen if wrong]
    if not failed:
        return
    built: set[int] = set()
    for base, wrong in [*_smaller(run, failed[0]), *sorted(failed, key=_size)]:
        for k in wrong:
            if k not in built and _build(run, base, k):
                built.add(k)
    for base, wrong in failed:
        for k in wrong:
            if k not in built:
                _retract(run, base, k)


def _size(failed: Failed) -> int:
    base = failed[0]
    return sum([y.size for y in base.ys]) + sum([base.xs[k].size for k in failed[1]])


def _build(run: Run, base: Base, k: int) -> bool:
    """Whether the Jacobians by input k, or the parts that were looked at, differ; kept if so."""
    needed = 6 * base.xs[k].size + sum([y.size for y in base.ys])
    if jacobian.fits(base, k) and needed * run.pace < SECONDS:
        found = jacobian.all_jacobians(run, base, k)
    else:
        picked = pick.elements(run, base, k)
        one = None if picked is None else jacobian.some_entries(run, base, k, *picked)
        found = [] if one is None else [one]
        if found:
            name = run.subject.inputs[k].name
            run.skip(f"most of the Jacobian by {name}", "too large: elements around a wrong one")
    run.evidence.jacobians.extend(found)
    return bool(found)


def _smaller(run: Run, failed: Failed) -> list[Failed]:
    """Small versions of a point at which the same is still wrong."""
    base, wrong = failed
    if run.subject.fixed:
        return []
    found: list[Failed] = []
    for point in sizes.smaller(run, base):
        try:
            small = base_at(run, point)
            still = tuple([k for k in probe(run, small, False).wrong if k in wrong])
        except Exception:
            continue  # there are other sizes
        if still and all(jacobian.fits(small, k) for k in still):
            found.append((small, still))
            if set(still) == set(wrong):
                break
    return found[::-1]


def _retract(run: Run, base: Base, k: int) -> None:
    """No element is wrong: what looked so was rounding, or a constant of seven digits."""
    name, evidence = base.point.name, run.evidence
    run.doubt(name, k, SAME)
    evidence.behaviours[:] = [
        b
        for b in evidence.behaviours
        if not (b.code in _OF_POINTS and b.input == k and b.data.get("point") == name)
    ]
