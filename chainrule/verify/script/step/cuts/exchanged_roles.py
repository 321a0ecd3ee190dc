"""Straight-through expressions whose roles are exchanged: `hard - soft + soft.detach()`.

Sums are followed as multiples of what they are made of, with what is cut off apart. Where a smooth
value is added and its cut copy taken off, or the other way round, nothing of its value is left, and
its gradient goes to it in place of that of the step. It must have the sign that the step has.
"""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.verify.script.step.cuts.slices import Cut, Slice
from chainrule.verify.script.step.record.tape import Entry, Slot
from chainrule.verify.script.step.terms import ELEMENTWISE, SCALING, is_linear

Form = Mapping[tuple[int, bool], float]
"""Multiples of slots, and whether of their cut copies."""


def is_opposed(part: Slice, cut: Cut) -> bool:
    """Whether a step gets the gradient of what it was made of, times a number below 0."""
    forms: dict[int, Form] = {}
    for entry in part.entries:
        if len(entry.outputs) != 1:
            continue
        if entry in cut.entries and len(entry.inputs) == 1:
            form = _form(forms, entry.inputs[0])
            forms[entry.outputs[0]] = {(s, True): k for (s, _), k in form.items()}
        elif entry.is_float and is_linear(entry, ELEMENTWISE):
            form = forms[entry.outputs[0]] = _sum(forms, entry)
            if entry.is_live and any(_is_against(part, form, slot) for slot, _ in form):
                return True
    return False


def _form(forms: Mapping[int, Form], slot: int) -> Form:
    return forms.get(slot, {(slot, False): 1.0})


def _sum(forms: Mapping[int, Form], entry: Entry) -> Form:
    """What a call adds up."""
    given = [x for x in entry.args if isinstance(x, Slot)]
    found: dict[tuple[int, bool], float] = {}
    for x, by in zip(given, _factors(entry), strict=False):
        if by is None or len(given) < len(entry.inputs):
            return {(entry.outputs[0], False): 1.0}
        for key, k in _form(forms, x.number).items():
            found[key] = found.get(key, 0.0) + by * k
    return found


def _factors(entry: Entry) -> tuple[float | None, ...]:
    """What each value is multiplied by; None if that is no number."""
    name = entry.name.strip("_")
    if name in ("rsub", "neg"):
        return -1.0, 1.0
    if name == "sub":
        first = isinstance(entry.args[0], Slot)
        return (1.0, -1.0) if first else (-1.0,)
    if entry.name in SCALING:
        numbers = [x for x in entry.args if not isinstance(x, Slot)]
        by = float(numbers[0]) if numbers and isinstance(numbers[0], int | float) else None
        return ((1 / by if by and "div" in name else by),)
    return 1.0, 1.0


def _is_against(part: Slice, form: Form, slot: int) -> bool:
    """Whether a value of which only the gradient is left has another sign than a step of it."""
    own, cut = form.get((slot, False), 0.0), form.get((slot, True), 0.0)
    if not own or own + cut != 0:
        return False
    for (hard, _), k in form.items():
        if hard != slot and k * own < 0 and part.has_steps(hard) and not part.has_steps(slot):
            return slot in part.behind({hard})
    return False
