"""Gradients that are not there: None, zeros, another shape, or no numbers."""

from __future__ import annotations

import numpy as np

from chainrule.verify.measure.noise import Base
from chainrule.verify.measure.numeric import slopes
from chainrule.verify.measure.probes import Probe
from chainrule.verify.measure.run import Run
from chainrule.verify.subject import Array


def note_dropped(run: Run, found: Probe) -> None:
    """Note inputs that get nothing though the outputs depend on them."""
    for k in found.wrong:
        bar = found.bars[k]
        if bar is None or not bar.any():
            says = "None" if bar is None else "zeros"
            run.behaves("dropped", k, f"the backward gives {says}, the derivative is not 0")


def note_infinite(run: Run, base: Base, found: Probe) -> None:
    """Note gradients with NaN or infinity where the forward is smooth."""
    for k, t in found.tangents.items():
        bar = found.bars[k] if found.bars else None
        if bar is None or bar.shape != t.shape or np.isfinite(bar).all():
            continue
        bad: Array = ~np.isfinite(bar)
        along = slopes(run, base, {k: t * bad})
        if all(s.resolved.all() and not s.jump.any() for s in along):
            count = int(bad.sum())
            says = f"{count} of {bad.size} elements are NaN or infinite; the derivative is finite"
            run.behaves("nan", k, says, count=count, point=base.point.name)
