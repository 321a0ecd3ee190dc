"""Gradients that a PyTorch script computes by hand, without autograd, and gives to an optimizer.

`p.grad = ...` and `optimizer.step()`: no backward pass is to be seen. So the step is run again, in
a copy of the process and in float64, as a function of the parameters: the loss that it computes is
held against the gradients that it leaves, and its code is corrected like that of any backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import final

import torch
from torch import Tensor

from chainrule.verify.certifying.certify import certify
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.script.byhand.loss import UnlikeError, doubted
from chainrule.verify.script.byhand.step import WHAT, subject_of_step
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.user_frames import user_frame

_AT = 2
"""The step that is looked at: in the first one, much may be zero."""
_PATIENCE = 120.0
"""Seconds after which the copy is given up."""


@final
class Optimized(Part):
    """Looks at one step for which no backward pass was made."""

    title = WHAT

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._steps = 0
        self._done = False
        self._found: list[Finding] = []
        self._ledger = Ledger()

    @on(events.BackwardBegins, events.Asked)
    def _differentiates(self, e: object) -> None:
        self._done = True

    @on(events.StepBegins)
    def _step_begins(self, e: events.StepBegins) -> None:
        """At the second step with gradients: run it again as a function of its parameters."""
        if self._done or e.closure:
            return
        self._steps += 1
        parameters = [p for p in e.params if torch.is_floating_point(p)]
        given = any(p.grad is not None for p in parameters)
        frame = user_frame()
        if self._steps < _AT or not given or frame is None:
            return
        self._done = True
        if not can_fork():
            why = "they are looked at in a copy of the process, which cannot be made here"
            self._ledger.skipped.append(Skipped(WHAT, why))
            return
        try:
            self._found, self._ledger = in_copy(lambda: _certify(frame, parameters), _PATIENCE)
        except LostError as error:
            self._ledger.skipped.append(Skipped(WHAT, f"could not be checked: {error}"))

    def _reported(self, ledger: Ledger) -> list[Finding]:
        """What is wrong with the gradients."""
        ledger.add(self._ledger)
        return self._found


def _certify(frame: FrameType, parameters: Sequence[Tensor]) -> tuple[list[Finding], Ledger]:
    try:
        step = subject_of_step(frame, parameters)
    except UnlikeError as error:
        return [], Ledger(skipped=[Skipped(WHAT, str(error))])
    report = certify("script", [step])
    return doubted(report.findings, step), report.ledger
