"""Precision: gradients that are too small for float16, and updates too small for the parameter.

Evidence of underflow are the numbers just above it: gradients between the smallest number and the
smallest normal one keep a few bits only, and where there are many of them, others were lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from chainrule.op import Array
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.finding import checked, finding

_STEPS = 3
_SHARE = 0.25
"""Share of the gradients that are not 0 from which on their being subnormal is worth saying."""
_LOST = 0.5
"""Share of updates that round to nothing from which on that is worth saying."""


@dataclass
class _Counts:
    """Elements of float16 gradients."""

    size: int = 0
    zero: int = 0
    subnormal: int = 0
    swallowed: int = 0
    """Gradients that came in small and went out as nothing but zeros."""


@final
class Precision(Part):
    """Finds `underflow` and `lost_updates`."""

    title = "float16 and bfloat16"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._counts: list[_Counts] = []
        self._now = _Counts()
        self._place: Place | None = None
        self._off: Place | None = None
        self._before: dict[int, Any] = {}
        self._lost: list[tuple[str, float, float, int]] = []
        self._rates: list[float] = []
        self._optimizer: Any = None
        self._stepped_at: Place | None = None
        self._scheduled = False

    def listens(self) -> Handlers:
        """Ops, backward passes and steps."""
        return {
            events.OpRan: self._ran,
            events.HalfGradient: self._arrived,
            events.ScalerOff: self._made_off,
            events.BackwardEnds: self._ends,
            events.StepBegins: self._stepping,
            events.StepEnds: self._stepped,
        }

    # --- gradients

    def _ran(self, e: events.OpRan) -> None:
        """PyTorch tells of an op whose result is in half the size, and of its gradient later."""
        for y in e.outputs:
            if y.dtype.itemsize == 2 and _is_half(y):
                e.engine.listen(y, partial(self._count, e.engine))

    def _count(self, engine: Engine, gs: Sequence[Any]) -> None:
        if self._error is not None or len(self._counts) >= _STEPS:
            return
        try:
            for g in gs:
                if g is not None and _is_half(g):
                    self._note(engine.array(g))
        except Exception as error:
            self.failed(error)

    def _arrived(self, e: events.HalfGradient) -> None:
        if len(self._counts) < _STEPS:
            self._note(e.engine.array(e.g))

    def _made_off(self, e: events.ScalerOff) -> None:
        self._off = e.place

    def _note(self, g: Array) -> None:
        size = np.abs(g)
        some = size > 0  # neither 0 nor NaN
        self._now.size += size.size
        self._now.zero += size.size - int(np.count_nonzero(some))
        small = some & (size < np.finfo(np.float16).tiny)
        self._now.subnormal += int(np.count_nonzero(small))

    def _ends(self, e: events.BackwardEnds) -> None:
        if self._now.size:
            self._counts.append(self._now)
            self._now = _Counts()
            self._place = e.begin.place
        if len(self._counts) >= _STEPS:
            self._bus.unhear(self, events.OpRan)

    # --- updates

    def _stepping(self, e: events.StepBegins) -> None:
        ours = type(e.optimizer).__module__.startswith(("torch.optim", "chainrule.optim"))
        if len(self._lost) >= _STEPS or not ours or e.closure:
            return
        self._optimizer, self._stepped_at = e.optimizer, e.place
        array = e.engine.array
        self._before = {
            id(p): (p, array(p).copy(), array(p.grad) != 0)
            for p in e.params
            if p.grad is not None and p.dtype.itemsize == 2
            if not getattr(p.grad, "is_sparse", False)
        }

    def _stepped(self, e: events.StepEnds) -> None:
        if not self._before:
            return
        rows = list(self._before.values())
        self._before = {}
        asked = sum([int(np.count_nonzero(some)) for _, _, some in rows])
        news = [e.engine.array(p) for p, _, _ in rows]
        moved = sum(
            [
                int(np.count_nonzero((y != x) & some))
                for y, (_, x, some) in zip(news, rows, strict=True)
            ]
        )
        rate = max([float(group["lr"]) for group in e.optimizer.param_groups])
        dtype = str(rows[0][0].dtype).removeprefix("torch.")
        if asked and rate > 0:
            self._lost.append((dtype, 1 - moved / asked, rate, asked))

    # --- findings

    def found(self, ledger: Ledger) -> list[Finding]:
        """Underflow, and updates that are lost."""
        if self._counts or self._lost:
            how = f"{len(self._counts)} backward passes, {len(self._lost)} steps"
            checked(ledger, self.title, how)
        return [*self._underflow(), *self._updates()]

    def _underflow(self) -> list[Finding]:
        shares = [c.subnormal / (c.size - c.zero) if c.zero < c.size else 1.0 for c in self._counts]
        if not self._counts or min(shares) < _SHARE:
            return []
        c = self._counts[-1]
        because = (
            f"{shares[-1]:.0%} of the float16 gradients that are not 0 are below 6.1e-5, the "
            f"smallest normal number, and {c.zero / c.size:.0%} of all are 0"
        )
        detail = f"{len(self._counts)} backward passes seen"
        advice, at = _SCALER, self._place
        if self._off is not None:
            because += "; the gradient scaler is disabled, and scales nothing"
            advice, at = f"let the scaler work where float16 is used; {_SCALER}", self._off
        return [finding("warning", "underflow", because, advice, at, detail=detail)]

    def _updates(self) -> list[Finding]:
        rates = [rate for _, _, rate, _ in self._lost]
        if not self._lost or min([share for _, share, _, _ in self._lost]) < _LOST:
            return []
        if len(rates) > 1 and rates[-1] > rates[0]:
            return []  # a warm-up: the rate is still small on purpose
        dtype, share, rate, asked = self._lost[-1]
        because = (
            f"{share:.0%} of {asked} elements of {dtype} parameters have a gradient and did not "
            f"change in the step: the update is below half the distance to the next {dtype}"
        )
        detail = f"learning rate {rate:g}"
        at = self._stepped_at
        return [finding("warning", "lost_updates", because, _MASTER, at, detail=detail)]


def _is_half(x: Any) -> bool:
    return str(x.dtype).endswith("float16") and "bfloat16" not in str(x.dtype)


_SCALER = (
    "scaler = torch.amp.GradScaler(device); scaler.scale(loss).backward(); scaler.step(optimizer); "
    "scaler.update(): or bfloat16, whose range is float32's"
)
_MASTER = (
    "keep the parameters in float32 and compute in low precision (torch.autocast), or use an "
    "optimizer with stochastic rounding"
)
