"""What a cut is there for.

A cut on the way is no mistake by itself: targets, weights and stopped gradients are cut on purpose.
What tells them apart is where the value goes: into the loss only, or back into the network, where
parameters act on it together with values that are connected.
"""

from __future__ import annotations

from typing import Any, Literal

from chainrule.verify.script.step.cuts.exchanged_roles import is_opposed
from chainrule.verify.script.step.cuts.slices import STEPS, Cut, Slice, given, made
from chainrule.verify.script.step.record.tape import DRAWS, GRAD, Entry, Slot
from chainrule.verify.script.step.terms import AFFINE, ELEMENTWISE, SCALING, is_linear

Purpose = Literal[
    "opposed", "reversed", "step", "added", "bare", "inside", "sample", "derivative", "wasted",
    "state", "loss",
]  # fmt: skip
"""Where a cut value goes: what the cut is for."""
_ALIKE = {"detach", "detach_", "data", "tensor", "as_tensor", "clone"}
"""Calls that give the values that they are given."""
_TURNS = 3
"""Of a loop that is a recurrence."""
_SILENT = ("tensor", "number")
"""Kinds of cuts that do not say that they cut."""


def purpose(part: Slice, cut: Cut) -> Purpose:
    """Where the value goes that is cut."""
    if all(e.name in _ALIKE for e in cut.entries) and is_opposed(part, cut):
        return "opposed"
    if _is_reversed(part, cut):
        return "reversed"
    if _is_offset(part, cut):
        return "step"
    if _is_added(part, cut):  # a term without a graph trains nothing, whatever it was made of
        return "added"
    if _is_step(part, cut) or _is_scale_of_step(part, cut):
        return "step"
    if _is_bare(part, cut):
        return "bare"
    if _is_inside(part, cut):
        return "inside"
    if _is_derivative(part, cut):
        return "derivative"
    if _is_wasted(part, cut):
        return "wasted"
    if _is_state(part, cut):
        return "state"
    return "sample" if is_sample(part, cut) else "loss"


def _is_step(part: Slice, cut: Cut) -> bool:
    """Whether a step function lies before the cut, or is cut: its slope is made up then.

    What is copied without a word on its graph makes up nothing: it counts if all ways lead
    over steps.
    """
    if cut.kind in _SILENT:
        return _smooth(part).isdisjoint(given(cut.entries))
    before = [*part.above(cut), *cut.entries]
    return any(not e.is_float or e.name in STEPS or e.is_step for e in before)


def _is_scale_of_step(part: Slice, cut: Cut) -> bool:
    """Whether what a parameter is cut off for is the scale by which it is rounded, as in
    `round(w / scale) * scale`: the step lies behind the cut, and its slope is made up as well."""
    reached, lost = part.below(cut.entries), part.roots_above(cut)
    meets = [e for e in part.entries if lost & {*e.inputs} and reached & {*e.inputs}]
    behind = part.forth(made(meets), lambda e: not part.acts(e, reached))
    return any(e.name in STEPS and behind & {*e.inputs} for e in part.entries)


def _smooth(part: Slice) -> set[int]:
    """Slots that come from roots by a way without steps."""
    return part.forth(part.tape.roots, lambda e: e.is_float and e.name not in STEPS)


def _is_bare(part: Slice, cut: Cut) -> bool:
    """Whether a parameter itself is cut off, where targets and weights are computed values."""
    slots = {s for e in cut.entries for s in e.connected}
    return cut.kind != "no_grad" and slots <= set(part.tape.roots)


def _is_inside(part: Slice, cut: Cut) -> bool:
    """Whether the cut value meets a connected one before parameters act on both."""
    reached = part.below(cut.entries)
    lost = part.roots_above(cut)
    mixed: set[int] = set()
    for entry in part.entries:
        if mixed.intersection(entry.inputs):
            if any(s in part.tape.roots and s not in mixed for s in entry.connected):
                return True
            mixed.update(entry.outputs)
        elif reached.intersection(entry.inputs) and part.carries(entry, reached, lost):
            mixed.update(entry.outputs)
    return False


def _is_added(part: Slice, cut: Cut) -> bool:
    """Whether the cut values make a term that is only added to the loss.

    Such a term changes no gradient at all. What is computed from cut values alone may be
    anything; where it meets connected ones, it is added, and so on up to the loss.
    """
    pure = made(cut.entries)
    silent = set[int]() if cut.kind in _SILENT else _silent(part)
    mixed: set[int] = set()
    for entry in part.entries:
        if not (pure | mixed).intersection(entry.inputs):
            continue
        if silent.intersection(entry.inputs):
            return False  # it would be no number, were it not for another cut
        if not entry.is_live or pure.issuperset(entry.connected):
            pure.update(entry.outputs)
        elif entry.name in AFFINE or (entry.name in SCALING and mixed.issuperset(entry.inputs)):
            mixed.update(entry.outputs)
        else:
            return False
    return part.loss in mixed and not _is_offset(part, cut)


def _silent(part: Slice) -> set[int]:
    """Slots of what was computed from values that were cut without a word, alone."""
    starts = [e for c in part.cuts if c.kind in _SILENT for e in c.entries]
    return part.forth(made(starts), lambda e: not e.is_live)


def _is_derivative(part: Slice, cut: Cut) -> bool:
    """Whether derivatives go straight into the loss, as those of an equation do, or of a
    penalty: no parameter acts on what is made of them, as on a sample that was moved along."""
    reached = part.below(cut.entries)
    behind = [e for e in part.entries if e.is_live and reached.intersection(e.inputs)]
    return cut.kind == "grad" and not any(part.acts(e, reached) for e in behind)


def _is_wasted(part: Slice, cut: Cut) -> bool:
    """Whether derivatives are cut off that were given a graph, which serves nothing else."""
    found = made([e for e in _derivatives(part, cut) if e.is_live])
    for e in part.tape.entries if found else ():
        if e not in cut.entries and found.intersection(e.connected):
            if not found.issuperset(e.connected):
                return False
            found.update(e.outputs)
    return bool(found)


def _is_state(part: Slice, cut: Cut) -> bool:
    """Whether a state is cut off in each turn of a recurrence, so that of many calls with the same
    parameters only the last one gets a gradient."""
    if cut.kind not in ("detach", "data") or len(cut.entries) < _TURNS:
        return False
    live = {id(e) for e in part.upstream({part.loss})}
    for root in part.roots_above(cut):
        calls = [e for e in part.entries if e.is_live and root in e.connected]
        if len(calls) > _TURNS and sum(id(e) in live for e in calls) == 1:
            return True
    return False


def differentiated_roots(part: Slice, cut: Cut) -> set[int]:
    """Roots of what derivatives were taken by."""
    asked: list[Any] = [e.args[1] for e in _derivatives(part, cut)]
    slots = [s for row in asked for s in ([row] if isinstance(row, Slot) else row)]
    return {r for s in slots if isinstance(s, Slot) for r in part.roots_of(s.number)}


def _derivatives(part: Slice, cut: Cut) -> list[Entry]:
    """Those that are cut, or what was computed of them alone: each has a graph, or could."""
    found = [e for e in cut.entries if e.name == GRAD]
    if found:
        return found
    above = part.back(
        {s for e in cut.entries for s in e.connected},
        lambda e: e.connected if e.name != GRAD and len(e.connected) == 1 else (),
    )
    return [e for e in above if e.name == GRAD]


def _is_offset(part: Slice, cut: Cut) -> bool:
    """Whether the cut value is added to what it was cut from, or taken from it, element by
    element: that gives a value a gradient which is not its own, on purpose."""
    if any(e.name not in _ALIKE for e in cut.entries):
        return False
    results, cut_off = part.forth(made(cut.entries), _is_sum), given(cut.entries)
    source = part.forth(cut_off, lambda e: e not in cut.entries and _is_sum(e))
    source |= _linear_sources(part, cut_off)
    return any(
        e.is_live
        and e.name in ELEMENTWISE
        and not results.isdisjoint(e.inputs)
        and not source.isdisjoint(_multiples_of(part, {*e.connected}))
        for e in part.entries
        if not results.issuperset(e.inputs)
    )


def _is_reversed(part: Slice, cut: Cut) -> bool:
    """Whether a step gets the value of what is smooth, where it was to be the other way round:
    `hard + (soft - hard).detach()` is soft, and has the gradient of a step."""
    if any(e.name not in _ALIKE for e in cut.entries):
        return False
    results = part.forth(made(cut.entries), _is_sum)
    inside = _linear_sources(part, given(cut.entries))
    for e in part.entries:
        if e.name in ELEMENTWISE and not results.isdisjoint(e.inputs):
            hard = {s for s in e.inputs if s not in results and s in inside}
            hard |= _linear_sources(part, hard)
            soft = inside - hard - set(part.tape.roots)
            if hard and all(map(part.has_steps, hard)) and _ends(part, soft):
                return True
    return False


def _ends(part: Slice, slots: set[int]) -> bool:
    """Whether there are computed values among some, and those of them that no other one is made of
    come from no step."""
    inner = made([e for e in part.entries if _is_sum(e) and slots.intersection(e.inputs)])
    ends = [s for s in slots - inner if part.roots_of(s)]
    return bool(ends) and not any(map(part.has_steps, ends))


def _linear_sources(part: Slice, slots: set[int]) -> set[int]:
    """Slots, and what they are multiples or sums of."""
    return part.behind(slots, lambda e: e.inputs if _is_sum(e) else ())


def _multiples_of(part: Slice, slots: set[int]) -> set[int]:
    """Slots, and what they are multiples of: `x * g + (x - x * g).detach()` is x, with a gradient
    that is scaled."""
    return part.behind(slots, lambda e: e.inputs if e.name in _SCALES and _is_sum(e) else ())


def _is_sum(entry: Entry) -> bool:
    """Whether a call adds values element by element, or multiplies one by a constant."""
    return is_linear(entry, ELEMENTWISE)


_SCALES = {"mul", "__mul__", "__rmul__", "mul_"}


def is_sample(part: Slice, cut: Cut) -> bool:
    """Whether the cut takes a sample from what it comes from, and parameters go on with it."""
    if cut.kind == "draw":
        return _goes_on(part, cut)
    above = set(part.above(cut))
    noise = made([e for e in above if e.name in DRAWS])
    drawn = [e for e in part.entries if _scales(part, e, noise)]
    return bool(drawn) and _is_only_way(part, cut, drawn, above) and _goes_on(part, cut)


def _scales(part: Slice, entry: Entry, noise: set[int]) -> bool:
    """Whether an entry multiplies noise with what is computed from parameters."""
    computed = any(s not in part.tape.roots for s in entry.connected)
    if entry.name not in _SCALES or not computed:
        return False
    drawn = any(part.tape.is_noise(x) for x in entry.args)
    return drawn or not noise.isdisjoint(entry.inputs)


def _is_only_way(part: Slice, cut: Cut, drawn: list[Entry], above: set[Entry]) -> bool:
    """Whether all that is done with the sample before the cut leads there, without parameters."""
    sample = part.below(drawn) - part.below(cut.entries)
    ways = {*above, *cut.entries}
    before = [e for e in part.entries if sample.intersection(e.connected)]
    return all(e in ways and not part.acts(e, sample) for e in before)


def _goes_on(part: Slice, cut: Cut) -> bool:
    """Whether parameters act on the sample, which never meets again what it was drawn with."""
    reached, lost = part.below(cut.entries), part.roots_above(cut)
    behind = [e for e in part.entries if reached.intersection(e.inputs)]
    meets = any(e.name not in AFFINE and part.carries(e, reached, lost) for e in behind)
    return not meets and any(part.acts(e, reached) for e in behind)
