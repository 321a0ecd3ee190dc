"""Where a gradient ends in a call that has none, or lacks a factor.

PyTorch's derivative of a step (rounding, comparisons, choices, saturation) is 0, and of what gives
whole numbers or truth there is none. So the gradient of what lies behind is exactly 0, or missing,
and no cut is to be seen. A value with a graph that is multiplied in place while autograd is off is
counted by PyTorch, and has no node. Adding a constant so is right, and clamping or rounding so is
how a gradient is made up on purpose; a factor that depends on a parameter may be a projection. Only
constant factors are told of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from chainrule.verify.finding import Finding, Level
from chainrule.verify.ledger import STEP
from chainrule.verify.place import Place
from chainrule.verify.script.remedies.cuts import switch_on
from chainrule.verify.script.step.cuts.cut_findings import Step
from chainrule.verify.script.step.cuts.slices import STEPS, Slice, autograd_switch
from chainrule.verify.script.step.idle_terms import idle_spot
from chainrule.verify.script.step.record.tape import Entry, Slot
from chainrule.verify.script.step.record.torch_tensors import TorchTensors, call_again, values_of
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.script.step.terms import adding_calls
from chainrule.verify.training.facts.names import join_names, parameter_names
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.user_frames import is_library, placed

_SCALES = ("mul_", "div_", "__imul__", "__itruediv__", "true_divide_", "multiply_", "divide_")


def in_place_factors(part: Slice) -> list[Spot]:
    """One for each line whose factor the loss sees and its gradient does not."""
    found = {entry.at: entry for entry in part.entries if _is_scaled(part, entry)}
    return [_factor(entry) for entry in found.values()]


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


def _factor(entry: Entry) -> Spot:
    edit = switch_on(autograd_switch((entry.at,) if entry.at is not None else ()))
    because = (
        f"`{entry.name}` changed a value that has a graph while autograd was off: the loss is that "
        "of the changed value, its gradient lacks the factor"
    )
    advice = "multiply outside of no_grad(), and not in place: y = y * factor"
    subject = "the training step"
    return Spot("unseen_change", placed(entry.at), because, advice, edit, subject)


FAR = (0.1, 1.0, 10.0)
"""How far a call's inputs are moved, relative to their size, to see whether it has slopes there."""
_SMOOTH = ("sigmoid", "tanh")
"""Functions with a slope everywhere, which rounds to 0 far from it."""


@dataclass(frozen=True)
class Flat:
    """A call at which the gradient of parameters ends."""

    name: str
    place: Place
    gives: str
    """What it gives: "0" or "none"."""
    everywhere: bool
    """Whether that is so wherever its inputs are."""
    roots: Mapping[int, str]
    """Ids and names of the parameters behind it, whose gradient ends there."""
    turn: int
    """That of the loss (see `Step`)."""


def calls_without_derivative(part: Slice, turn: int) -> list[Flat]:
    """Calls that make whole numbers or truth of values with a gradient, on the way to a loss."""
    read = {s for e in part.entries for s in e.inputs}
    some = [e for e in part.entries if e.connected and not read.isdisjoint(e.whole)]
    names = (
        parameter_names(torch.nn.Module) if some else {}
    )  # which looks through all that there is
    rows = [_flat(part, e, "none", True, part.connected_roots(e), turn, names) for e in some]
    return [flat for flat in rows if flat is not None]


def calls_with_zero_slope(part: Slice, loss: Tensor, turn: int) -> list[Flat]:
    """Calls that are given a gradient and pass on exactly 0, where that is all that a parameter
    gets. What makes nothing but zeros is left to others: dead units, a loss that is at its least.

    The step is run again for that.
    """
    values = values_of(part, loss)
    live = [e for e in part.entries if e.is_live]
    slots = {*part.tape.roots, *[s for e in live for s in (*e.outputs, *e.connected)]}
    asked = [s for s in slots if s in values and values[s].requires_grad]
    grads = _gradients(values[part.loss], [values[s] for s in asked])
    zero = {s: not bool(g.any()) for s, g in zip(asked, grads, strict=True) if g is not None}
    left = {s for s in part.tape.roots if zero.get(s)}
    found, names = list[Flat](), parameter_names(torch.nn.Module) if left else {}
    for e in reversed(live):
        stops = all(zero.get(s, True) for s in e.connected)
        if stops and not all(zero.get(s, True) for s in e.outputs):
            mine = left & part.connected_roots(e)
            made = any(bool(values[s].any()) for s in e.outputs)
            one = made and _flat(part, e, "0", _is_flat(e, values), mine, turn, names)
            found += [one] if one else []
            left -= mine
    return found


def _flat(
    part: Slice,
    entry: Entry,
    gives: str,
    everywhere: bool,
    roots: set[int],
    turn: int,
    names: Mapping[int, str],
) -> Flat | None:
    """A call without a slope, with the parameters behind it; None if there are none."""
    place = placed(entry.at)
    leaves = [t for s in sorted(roots) if (t := part.tape.roots[s]).is_leaf]
    behind = {id(t): names.get(id(t), "a leaf") for t in leaves}
    if place is None or not behind:
        return None
    return Flat(entry.name.strip("_"), place, gives, everywhere, behind, turn)


def _is_flat(entry: Entry, values: Mapping[int, Tensor]) -> bool:
    """Whether a call has no slope elsewhere either: near its inputs, and near 0, where what
    saturates has one."""
    generator = torch.Generator().manual_seed(0)
    for near, far in [*[(1.0, far) for far in FAR], (0.0, 1.0)]:
        moved = dict(values)
        for slot in entry.connected:
            x = values[slot].detach()
            noise = torch.randn(x.shape, generator=generator).to(x.dtype)
            by = far * (near * x.abs().mean() + 1.0)
            moved[slot] = (near * x + by * noise).requires_grad_()
        made = [t.sum() for t in call_again(entry, moved) if t.requires_grad]
        grads = _gradients(sum(made, torch.zeros(())), [moved[s] for s in entry.connected])
        if any(g is not None and bool(g.any()) for g in grads):
            return False
    return True


def terms_with_zero_slope(part: Slice, loss: Tensor) -> list[Spot]:
    """Terms of a loss whose gradient is exactly 0 because of a call that is flat everywhere.

    The step is run again for that.
    """
    values, found = values_of(part, loss), dict[Spot, None]()
    roots = [values[s] for s in part.tape.roots]
    for entry in adding_calls(part):
        for slot in entry.connected if len(entry.inputs) > 1 else ():
            term = values[slot]
            grads = _gradients(term.sum(), roots) if bool(term.any()) else roots
            if slot not in part.tape.roots and not any(g is not None and g.any() for g in grads):
                found |= dict.fromkeys(_steps_before(part, slot, values))
    return list(found)


def has_steps(part: Slice) -> bool:
    """Whether any call with a graph is a step of floats."""
    return any(e.is_live and e.name in STEPS for e in part.entries)


def _steps_before(part: Slice, slot: int, values: Mapping[int, Tensor]) -> list[Spot]:
    """The last step that a value comes from, if it is one wherever its input is."""
    for e in part.upstream({slot}):
        place = placed(e.at)
        if e.name in STEPS and place is not None and _is_flat(e, values):
            return [idle_spot(e.name, place, "derivative 0 everywhere")]
    return []


def _gradients(y: Tensor, xs: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Of a number; None for what it does not depend on."""
    return TorchTensors().gradients([y], None, xs) if y.requires_grad else [None] * len(xs)


def flat_findings(flats: Sequence[Flat], step: Step) -> list[Finding]:
    """Findings for parameters that get no gradient from any loss for such a call.

    What is 0 because of it tells `step`, before the cuts are judged; what is missing is looked for
    after them.
    """
    lost: dict[tuple[str, str], tuple[Flat, dict[int, str]]] = {}
    for flat in flats:
        trained = step.parameters_of(flat.turn)
        fed = step.reached | step.orphans if flat.gives == "none" else step.fed
        hungry = {i: name for i, name in flat.roots.items() if i not in fed}
        step.flat |= {i for i in hungry if flat.gives == "0" and flat.everywhere}
        mine = {i: name for i, name in hungry.items() if i in trained or not trained}
        lost.setdefault((flat.name, str(flat.place)), (flat, {}))[1].update(mine)
    rows = [(flat, list(names.values())) for flat, names in lost.values() if names]
    return [_finding(flat, names, _is_usual(flat, step)) for flat, names in rows]


def _is_usual(flat: Flat, step: Step) -> bool:
    """Whether the call has a slope elsewhere, and other parameters are trained meanwhile."""
    known = step.parameters_of(flat.turn) or step.reached
    return not flat.everywhere and bool(known & step.fed)


def _finding(flat: Flat, lost: Sequence[str], usual: bool) -> Finding:
    """What is said of a call without a slope, through which `lost` parameters act on the loss."""
    names = join_names(lost)
    gradient = "no gradient" if flat.gives == "none" else "a gradient that is exactly 0"
    slope = (
        "has no derivative" if flat.gives == "none"
        else "is a step, whose derivative is 0" if flat.everywhere
        else "is flat at all values that it is given"
    )  # fmt: skip
    because = f"`{flat.name}` {slope}: {names} act on the loss through it, and get {gradient}"
    saturated = flat.name in _SMOOTH and not flat.everywhere
    advice = (
        "begin with smaller values: smaller weights, a smaller bias, or normalised inputs"
        if saturated
        else "let the loss use what is smooth (the values before it, softmax or sigmoid weights), "
        "or pass the gradient straight through: soft + (hard - soft).detach()"
    )
    level: Level = "note" if usual and not saturated else "warning"
    code, where = "dead" if saturated else "no_gradient", lost[0] if len(lost) == 1 else ""
    return finding(
        level, code, because, advice, flat.place, detail=f"parameters: {names}",
        subject="the loss", kind=STEP, input=where,
    )  # fmt: skip
