"""Losses that are smallest where outputs tell nothing: all scores are driven the same way, or all
that is asked for is that two outputs of one network are alike.

That counts only where all parameters behind such a loss are trained by it: a generator is asked for
one thing as well, by a critic that others train.
"""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.links import Links
from chainrule.verify.script.step.loss_factors import FITS, SQUARES
from chainrule.verify.script.step.record.tape import GRAD, Entry
from chainrule.verify.script.step.spots import Spot, spots_at
from chainrule.verify.script.step.terms import adding_calls

_RISING = {"logsigmoid", "log_sigmoid", "softplus", "sigmoid"}
"""Calls that grow with their argument, to a bound on one side."""
_UNITS = {"normalize"}
_LIKENESS = {"cosine_similarity"}


def ends(part: Slice) -> list[int]:
    """Slots of what a loss is the sum of, but for constants, as far as it has a graph."""
    need = dict.fromkeys([part.loss])
    for entry in adding_calls(part):
        for slot in entry.outputs:
            need.pop(slot, None)
        need.update(dict.fromkeys(entry.connected))
    return list(need)


def degenerate_spots(part: Slice) -> list[Spot]:
    """What is wrong with the whole of a loss."""
    links = Links(part)
    made = [links.maker.get(slot) for slot in ends(part)]
    if not made or any(e is None or e.name == GRAD for e in [*made, *part.entries]):
        return []
    some = [e for e in made if e is not None]
    return [*_driven(links, some), *_alike(links, some)]


def _driven(links: Links, made: Sequence[Entry]) -> list[Spot]:
    """Scores of which all are to grow, or all to shrink."""
    signs, tape = links.signs(), links.part.tape
    if len(made) < 2 or not all(e.name in _RISING and len(e.connected) == 1 for e in made):
        return []
    ways = {_way(links, e, signs.get(e.outputs[0], 0)) for e in made}
    shapes = {tape.shapes.get(e.connected[0]) for e in made}
    roots = {frozenset(links.part.live_roots_of(e.connected[0])) for e in made}
    if len(ways) != 1 or 0 in ways or len(shapes) < 2 or len(roots) != 1:
        return []
    says = f"all {len(made)} kinds of scores in the loss are driven the same way, and nothing else "
    says += "is in it: it is smallest where all scores are without bound, whatever is given"
    return spots_at("sign", made[0], says, "score what should not be near with the other sign")


def _way(links: Links, entry: Entry, sign: int) -> int:
    """Whether the loss grows with a score (1) or falls (-1)."""
    inner = links.maker.get(entry.connected[0])
    while inner is not None and inner.name in ("neg", "squeeze", "view", "reshape"):
        sign = -sign if inner.name == "neg" else sign
        inner = links.maker.get(inner.connected[0])
    return sign


def _alike(links: Links, made: Sequence[Entry]) -> list[Spot]:
    """Two outputs of the same parameters that are made alike."""
    if not all(_is_likeness(links, e) for e in made):
        return []
    says = "all that is asked for is that two outputs of the same parameters are alike, and both "
    says += "have a graph: the loss is smallest where all outputs are one"
    advice = "detach the target, or add what keeps outputs apart"
    return spots_at("self_compared", made[0], says, advice)


def _is_likeness(links: Links, entry: Entry) -> bool:
    """Whether a call says how alike two outputs are."""
    pair = entry.connected
    if entry.name in SQUARES and len(pair) == 1:
        inner = links.maker.get(pair[0])
        pair = inner.connected if inner is not None and inner.name in ("sub", "__sub__") else ()
    elif entry.name in ("mul", "__mul__"):
        units = [links.made_by(s, set()) for s in pair]
        if not all(e is not None and e.name in _UNITS for e in units):
            return False
    elif entry.name not in FITS | _LIKENESS:
        return False
    if len(pair) != 2 or pair[0] == pair[1]:
        return False
    one, other = (links.part.live_roots_of(s) for s in pair)
    return bool(one) and bool(other) and (one <= other or other <= one)
