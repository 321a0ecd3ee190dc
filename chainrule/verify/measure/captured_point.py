"""The point that was captured, and what is seen at it and beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.verify.foreign_kernels import kernels_in
from chainrule.verify.measure import self_comparison
from chainrule.verify.measure.noise import Base, base_at
from chainrule.verify.measure.points.values import nearby_point
from chainrule.verify.measure.probes import Probe, probe
from chainrule.verify.measure.run import BackwardError, Point, Run, UnusableError, inexact
from chainrule.verify.subject import Array, values
from chainrule.verify.tolerances import SAME

_OTHER = 0.1
"""Relative difference that no rounding explains, not that of half precision."""


def captured_base(run: Run) -> Base:
    """The captured point, in float64 if the subject runs in it, in its own dtypes otherwise.

    `UnusableError` if its forward fails, or is random for itself.
    """
    exact = Point("as captured", values(run.subject, np.float64), "captured")
    own = Point("as captured", values(run.subject), "captured")
    try:
        made = kernels_in(run.subject.functions)
        if made and _differ(run.forward(exact.xs), run.forward(own.xs)):
            raise UnusableError(f"a kernel made for one dtype gives other results ({made[0]})")
        base = base_at(run, exact)
        if _raises(run, base) and not _raises(run, base_at(run, own)):
            raise UnusableError("the backward does not run in float64")
    except UnusableError as error:
        run.skip("float64", str(error))
        base = base_at(run, own)
    again = run.forward(base.xs)
    for y, z, dtype in zip(base.ys, again, base.dtypes, strict=True):
        if inexact(np.empty(0, dtype)) and self_comparison.distance(y, z) > SAME:
            raise UnusableError(
                "the forward gives other results when it is run again: it is random"
            )
    return base


def _differ(ys: Sequence[Array], others: Sequence[Array]) -> bool:
    """Whether results of two dtypes are not the same numbers."""
    pairs = zip(ys, others, strict=True)
    return any(a.shape != b.shape or not self_comparison.distance(a, b) < _OTHER for a, b in pairs)


def _raises(run: Run, base: Base) -> bool:
    gs = [
        np.ones(y.shape, d if d.kind in "fcV" else float)
        for y, d in zip(base.ys, base.dtypes, strict=False)
    ]
    try:
        run.pull(base.xs, gs)
    except BackwardError:
        return True
    return False


def probe_around(run: Run, base: Base, thorough: bool) -> list[tuple[Base, Probe]]:
    """Probe at a point, and again off its kinks where it is full of them."""
    seen = [(base, probe(run, base, thorough))]
    run.note(*seen[0][1].trials)
    if seen[0][1].kinked:
        try:
            beside = base_at(run, nearby_point(run, base.point))
            seen.append((beside, probe(run, beside, thorough)))
            run.note(*seen[1][1].trials)
        except UnusableError as error:
            run.skip(f"a point off the kinks of: {base.point.name}", str(error))
    return seen
