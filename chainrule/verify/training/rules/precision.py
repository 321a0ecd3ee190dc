"""Precision: gradients that are too small for float16, and updates too small for the parameter.

Evidence of underflow are the numbers just above it: gradients between the smallest number and the
smallest normal one keep a few bits only, and where there are many of them, others were lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.place import Place
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.rules.finding import Row

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


class _Underflow(NamedTuple):
    """Gradients in float16 that are too small for it."""

    share: float
    zero: float
    passes: int
    at: Place | None
    off: Place | None
    """Where a gradient scaler was made that is disabled."""


class _Lost(NamedTuple):
    """Updates of a step that round to nothing."""

    dtype: str
    share: float
    rate: float
    asked: int
    """Elements with a gradient."""
    stepped_at: Place | None


_SCALER = (
    "scaler = torch.amp.GradScaler(device); scaler.scale(loss).backward(); scaler.step(optimizer); "
    "scaler.update(): or bfloat16, whose range is float32's"
)


@final
class Precision(Part):
    """Finds `underflow` and `lost_updates`."""

    title = "float16 and bfloat16"
    rows = (
        Row(
            "underflow",
            lambda f: f.underflow(),
            lambda u: (
                f"{u.share:.0%} of the float16 gradients that are not 0 are below 6.1e-5, the "
                f"smallest normal number, and {u.zero:.0%} of all are 0"
                + ("; the gradient scaler is disabled, and scales nothing" if u.off else "")
            ),
            lambda u: f"{'let the scaler work where float16 is used; ' if u.off else ''}{_SCALER}",
            place=lambda u: u.off or u.at,
            detail="{passes} backward passes seen",
        ),
        Row(
            "lost_updates",
            lambda f: f.lost[-1:],
            "{share:.0%} of {asked} elements of {dtype} parameters have a gradient and did not "
            "change in the step: the update is below half the distance to the next {dtype}",
            "keep the parameters in float32 and compute in low precision (torch.autocast), or use "
            "an optimizer with stochastic rounding",
            place=lambda u: u.stepped_at,
            detail="learning rate {rate:g}",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._counts: list[_Counts] = []
        self._now = _Counts()
        self._place: Place | None = None
        self._off: Place | None = None
        self._before: dict[int, Any] = {}
        self._lost: list[_Lost] = []
        self._stepped_at: Place | None = None

    # --- gradients

    @on(op_events.OpRan)
    def _ran(self, e: op_events.OpRan) -> None:
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

    @on(events.HalfGradient)
    def _arrived(self, e: events.HalfGradient) -> None:
        if len(self._counts) < _STEPS:
            self._note(e.engine.array(e.g))

    @on(events.ScalerOff)
    def _made_off(self, e: events.ScalerOff) -> None:
        self._off = e.place

    def _note(self, g: Array) -> None:
        size = np.abs(g)
        some = size > 0  # neither 0 nor NaN
        self._now.size += size.size
        self._now.zero += size.size - int(np.count_nonzero(some))
        small = some & (size < np.finfo(np.float16).tiny)
        self._now.subnormal += int(np.count_nonzero(small))

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        if self._now.size:
            self._counts.append(self._now)
            self._now = _Counts()
            self._place = e.begin.place
        if len(self._counts) >= _STEPS:
            self._bus.unhear(self, op_events.OpRan)

    # --- updates

    @on(events.StepBegins)
    def _stepping(self, e: events.StepBegins) -> None:
        ours = type(e.optimizer).__module__.startswith(("torch.optim", "chainrule.optim"))
        if len(self._lost) >= _STEPS or not ours or e.closure:
            return
        self._stepped_at = e.place
        array = e.engine.array
        self._before = {
            id(p): (p, array(p).copy(), array(p.grad) != 0)
            for p in e.params
            if p.grad is not None and p.dtype.itemsize == 2
            if not getattr(p.grad, "is_sparse", False)
        }

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        """Count updates that were asked for and changed no number of the parameter."""
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
            lost = 1 - moved / asked
            self._lost.append(_Lost(dtype, lost, rate, asked, self._stepped_at))

    # --- cases

    def seen(self) -> Sequence[str]:
        """How much of it there was."""
        some = f"{len(self._counts)} backward passes, {len(self._lost)} steps"
        return [some] if self._counts or self._lost else []

    def underflow(self) -> Iterator[_Underflow]:
        """Where a share of the gradients is subnormal in each pass that was seen."""
        shares = [c.subnormal / (c.size - c.zero) if c.zero < c.size else 1.0 for c in self._counts]
        if self._counts and min(shares) >= _SHARE:
            c = self._counts[-1]
            yield _Underflow(shares[-1], c.zero / c.size, len(shares), self._place, self._off)

    @property
    def lost(self) -> Sequence[_Lost]:
        """Steps, if a share of the updates was lost in each of them; not while the rate grows: a
        warm-up is small on purpose."""
        rows = self._lost
        some = bool(rows) and min([row.share for row in rows]) >= _LOST
        return rows if some and not rows[-1].rate > rows[0].rate else ()


def _is_half(x: Any) -> bool:
    return str(x.dtype).endswith("float16") and "bfloat16" not in str(x.dtype)
