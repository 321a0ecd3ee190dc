"""A sample that is cut from what it was drawn with.

A normal draw is scaled with a computed value, and that is a step of the graph, for one reason: so
that gradients flow through the sample to where it is from (Kingma and Welling, "Auto-Encoding
Variational Bayes", 2014, section 2.4). Cut behind that, parameters go on with a sample that trains
nothing. Where the sample meets again what it was drawn with, as in the likelihood of an action
(Williams, 1992), the cut is part of another estimator, and meant.
"""

from __future__ import annotations

from chainrule.verify.script.cuts import Cut, Slice
from chainrule.verify.script.entries import DRAWS, Entry
from chainrule.verify.script.sums import AFFINE

_SCALES = {"mul", "__mul__", "__rmul__", "mul_"}


def is_sample(part: Slice, cut: Cut) -> bool:
    """Whether the cut takes a sample from what it comes from, and parameters go on with it."""
    if cut.kind == "draw":
        return _goes_on(part, cut)
    above = set(part.above(cut))
    noise = {s for e in above if e.name in DRAWS for s in e.outputs}
    drawn = [i for i in part.numbers if _scales(part, part.tape.entries[i], noise)]
    return bool(drawn) and _is_only_way(part, cut, drawn, above) and _goes_on(part, cut)


def _scales(part: Slice, entry: Entry, noise: set[int]) -> bool:
    """Whether an entry multiplies noise with what is computed from parameters."""
    computed = any(s not in part.tape.roots for s in entry.connected)
    if entry.name not in _SCALES or not computed:
        return False
    drawn = any(part.tape.is_noise(x) for x in entry.args)
    return drawn or not noise.isdisjoint(entry.inputs)


def _is_only_way(part: Slice, cut: Cut, drawn: list[int], above: set[Entry]) -> bool:
    """Whether all that is done with the sample before the cut leads there, without parameters."""
    sample = part.below(drawn) - part.below(cut.entries)
    ways = {*above, *[part.tape.entries[i] for i in cut.entries]}
    before = [e for e in part.entries if sample.intersection(e.connected)]
    return all(e in ways and not part.acts(e, sample) for e in before)


def _goes_on(part: Slice, cut: Cut) -> bool:
    """Whether parameters act on the sample, which never meets again what it was drawn with."""
    reached, lost = part.below(cut.entries), part.roots_above(cut)
    behind = [e for e in part.entries if reached.intersection(e.inputs)]
    meets = any(e.name not in AFFINE and part.carries(e, reached, lost) for e in behind)
    return not meets and any(part.acts(e, reached) for e in behind)
