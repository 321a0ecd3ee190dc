"""Gradients that a PyTorch script computes by hand, without autograd, and gives to an optimizer.

`p.grad = ...` and `optimizer.step()`: no backward pass is to be seen. So the step is run again, in
a copy of the process and in float64, as a function of the parameters: the loss that it computes is
held against the gradients that it leaves, and its code is corrected like that of any backward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from chainrule.verify.certify import certify
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.patches import Patches
from chainrule.verify.pytorch.door import unseen
from chainrule.verify.script.byhand.loss import UnlikeError
from chainrule.verify.script.byhand.step import WHAT, subject_of_step
from chainrule.verify.script.sandbox.fork import LostError, apart, can_fork
from chainrule.verify.where import user_frame

_AT = 2
"""The step that is looked at: in the first one, much may be zero."""
_PATIENCE = 120.0
"""Seconds after which the copy is given up."""


class Optimized(Observer):
    """Looks at one step for which no backward pass was made."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._hook: Any = None
        self._steps = 0
        self._done = False
        self._found: list[Finding] = []
        self._ledger = Ledger()

    def start(self) -> None:
        """Wait for a step without a backward pass before it."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._hook = register_optimizer_step_pre_hook(self._stepping)
        for owner in (torch.Tensor, torch.autograd):
            self._patches.before(owner, "backward", self._differentiated)
        self._patches.before(torch.autograd, "grad", self._differentiated)

    def step_done(self, step: int) -> None:
        """What is looked at, is looked at before a step. The hooks stay: whoever was put over them
        would go with them."""

    def stop(self) -> None:
        """Look at no more."""
        self._patches.undo()
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _differentiated(self, *_: Any, **__: Any) -> None:
        self._done = True

    def _stepping(self, optimizer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if self._done or len(args) > 1 or kwargs:
            return
        self._steps += 1
        every = [p for group in optimizer.param_groups for p in group["params"]]
        parameters = [p for p in every if torch.is_floating_point(p)]
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
            with unseen():
                self._found, self._ledger = apart(lambda: _certified(frame, parameters), _PATIENCE)
        except LostError as error:
            self._ledger.skipped.append(Skipped(WHAT, f"could not be checked: {error}"))

    def findings(self, ledger: Ledger) -> list[Finding]:
        """What is wrong with the gradients."""
        ledger.checked.extend(self._ledger.checked)
        ledger.skipped.extend(self._ledger.skipped)
        ledger.planted = ledger.planted or self._ledger.planted
        return self._found


def _certified(frame: FrameType, parameters: Sequence[Tensor]) -> tuple[list[Finding], Ledger]:
    try:
        step = subject_of_step(frame, parameters)
    except UnlikeError as error:
        return [], Ledger(skipped=[Skipped(WHAT, str(error))])
    report = certify("script", [step])
    return list(report.findings), report.ledger
