"""Values that were multiplied in place while autograd was off, though they have a graph.

PyTorch keeps the graph and counts the change, but no node stands for it: the gradient lacks the
factor. Adding a constant so is right, and clamping or rounding so is how a gradient is made up on
purpose; a factor that depends on a parameter may be a projection. Only constant ones are told of.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chainrule.verify.finding import Finding
from chainrule.verify.script.remedies.cuts import switch_on
from chainrule.verify.script.step.cuts import Slice, autograd_switch
from chainrule.verify.script.step.tape import Entry, Slot
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.where import is_library, placed

_SCALES = ("mul_", "div_", "__imul__", "__itruediv__", "true_divide_", "multiply_", "divide_")


def in_place_factors(part: Slice) -> list[Finding]:
    """One for each line whose factor the loss sees and its gradient does not."""
    found = {entry.at: entry for entry in part.entries if _is_scaled(part, entry)}
    return [_finding(entry) for entry in found.values()]


def _is_scaled(part: Slice, entry: Entry) -> bool:
    """Whether a connected value, not a parameter, was multiplied by a constant other than 1."""
    hidden = entry.name in _SCALES and not entry.grad and entry.is_live
    if not hidden or entry.at is None or is_library(entry.at[0].co_filename):
        return False
    own = entry.connected and entry.inputs == entry.connected[:1]
    kept = {*part.tape.roots, part.tape.group[part.loss]}  # a loss may be changed to be shown
    if not own or entry.wrote in kept or len(entry.args) < 2:
        return False
    target, factor = entry.args[0], entry.args[1]
    return isinstance(target, Slot) and _changes(factor)


def _changes(factor: Any) -> bool:
    """Whether it is a constant that changes what it multiplies."""
    if isinstance(factor, Tensor):
        return bool((factor != 1).any()) and bool(torch.isfinite(factor).all())
    return isinstance(factor, int | float) and factor not in (0, 1)


def _finding(entry: Entry) -> Finding:
    at = (entry.at,) if entry.at is not None else ()
    place, edit = placed(entry.at), switch_on(autograd_switch(at))
    because = (
        f"`{entry.name}` changed a value that has a graph while autograd was off: the loss is that "
        "of the changed value, its gradient lacks the factor"
    )
    advice = "multiply outside of no_grad(), and not in place: y = y * factor"
    code, subject = "unseen_change", "the training step"
    return finding("warning", code, because, advice, place, subject=subject, edit=edit)
