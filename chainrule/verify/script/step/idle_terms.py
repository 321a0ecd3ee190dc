"""Terms of the loss that pass no gradient on: their value counts, and no parameter follows it.

A term is what is only added to the others on the way to the loss. It is idle if it comes from
parameters, and all ways to them lead through calls that have no derivative (comparisons, choices,
counts) or a derivative that is 0 wherever they are (rounding, signs). What was cut on purpose or
left as a number is priced elsewhere (`cut_findings`).

A term trains nothing as well if all parameters that it reaches are somebody else's, and the
gradients that these get are dropped. A value on the way that was cut off what is trained (a sample,
a detached value) is where the term lost it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chainrule.verify.place import Place
from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.record.tape import NUMBER, Entry, back
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.script.step.terms import SCALING, adding_calls
from chainrule.verify.training.facts.history import HAND, History, Pass
from chainrule.verify.user_frames import placed, users_line

_ALONGSIDE = {"broadcast_tensors", "meshgrid"}
"""Calls that make a result of each argument by itself."""


def idle_spot(name: str, place: Place, slope: str) -> Spot:
    """Where the gradient of a term of the loss ends: at a call of that name."""
    because = (
        f"a term of the loss comes from parameters only through `{name}`, which has {slope}: its "
        "value is in the loss, and it changes no gradient"
    )
    advice = (
        "let the loss use what is smooth: probabilities or distances in place of choices, counts "
        "and roundings; leave the term out if it is only to be shown"
    )
    return Spot("idle_term", place, because, advice)


def idle_terms(part: Slice) -> list[Spot]:
    """Terms that have no graph, because of calls without a derivative."""
    found: dict[Spot, None] = {}
    for entry in adding_calls(part):
        for slot in entry.inputs:
            if slot not in entry.connected and slot not in part.tape.roots:
                end = _end_of_graph(part, slot)
                place = _place(end) if end is not None else None
                if end is not None and place is not None:
                    found[idle_spot(end.name.strip("_"), place, "no derivative")] = None
    return list(found)


def _end_of_graph(part: Slice, slot: int) -> Entry | None:
    """The last call that a value without a graph comes from and whose arguments had one; None if
    any of these calls cuts a graph that could have gone on."""
    need, last = {slot}, None
    for entry in back(part.entries, need, lambda e: () if _ends_graph(e) else e.inputs):
        if entry.cuts and entry.name != NUMBER:
            return None
        if entry.name in SCALING and any(_is_zero(x) for x in entry.args):
            return None  # it is shown, and changes nothing
        if entry.is_live and (entry.name in _ALONGSIDE or need.isdisjoint(entry.whole)):
            return None  # a constant that went along with a value
        if _ends_graph(entry):
            last = last or entry
    return last


def _ends_graph(entry: Entry) -> bool:
    """Whether arguments of a call have a graph."""
    return bool(entry.connected) and entry.name != NUMBER


def _is_zero(x: object) -> bool:
    return isinstance(x, int | float) and x == 0


def _place(entry: Entry) -> Place | None:
    return placed(entry.at) if entry.at is not None else users_line(entry.frames)


@dataclass(frozen=True)
class Term:
    """A term of a loss."""

    place: Place
    roots: frozenset[int]
    """Ids of the parameters that it gives a gradient."""
    cuts: tuple[tuple[Place, frozenset[int]], ...]
    """Where it was cut, and what it would reach there."""


def _ends(part: Slice) -> list[int]:
    """Slots of what a loss is the sum of, but for constants, as far as it has a graph."""
    need = dict.fromkeys([part.loss])
    for entry in adding_calls(part):
        for slot in entry.outputs:
            need.pop(slot, None)
        need.update(dict.fromkeys(entry.connected))
    return list(need)


def terms(part: Slice) -> list[Term]:
    """What a loss is the sum of, as far as it has a graph."""
    found: list[Term] = []
    for slot in _ends(part):
        made = [e for e in part.entries if slot in e.outputs]
        place = placed(made[-1].at) if made else None
        roots = part.live_roots_of(slot)
        is_whole = all(part.tape.roots[r].is_leaf for r in roots)
        if roots and is_whole and place is not None:  # else it begins before the record
            inner = Slice(part.tape, slot)
            cuts = [(c.place, _ids(part, inner.roots_above(c))) for c in inner.cuts]
            found.append(Term(place, _ids(part, roots), tuple(cuts)))
    return found


def _ids(part: Slice, roots: set[int]) -> frozenset[int]:
    tape = part.tape
    return frozenset([tape.identity(tape.roots[r]) for r in roots])


@dataclass(frozen=True)
class Sum:
    """A loss, as it is added up, and the pass from it."""

    terms: Sequence[Term]
    made: Pass

    @classmethod
    def of(cls, part: Slice, made: Pass) -> Sum:
        """That of the part of a record that a loss depends on."""
        return cls(terms(part), made)


def wasted_spots(
    rows: Sequence[Sum],
    passes: Mapping[Place | None, Sequence[Pass]],
    history: History,
) -> list[Spot]:
    """Terms none of whose gradients an optimizer has used, where it used others of their loss.

    `passes`: all that were seen, by line: a gradient may be used in some steps only.
    """
    found: dict[Spot, None] = {}
    known = {*map(id, history.names.known()), *history.optimized()}
    for row in rows:
        used = _used(passes.get(row.made.place, [row.made]), history)
        for term in row.terms if used is not None else ():
            if used and term.roots <= known and not term.roots & used:
                lost = [at for at, ids in term.cuts if ids & used]
                found[_spot(term, lost[-1] if lost else None)] = None
    return list(found)


def _used(passes: Sequence[Pass], history: History) -> set[int] | None:
    """Ids of parameters that were changed with gradients of some passes; None if the program
    changes some itself."""
    used = set[int]()
    for one in passes:
        if HAND in one.used_by:
            return None
        for key in one.used_by:
            row = history.trainers.get(key)
            used |= row.ids & one.touched if row is not None else set()
    return used


def _spot(term: Term, cut: Place | None) -> Spot:
    says = "this term of the loss gives gradients only to parameters for which nobody uses them: "
    if cut is not None:
        says += "what is trained by the others is cut off from it here"
        return Spot("idle_term", cut, says, "keep the graph (rsample(), no detach) on this line")
    says += "what is trained by the others is not in it"
    advice = "make this term of what the optimizer trains, or leave it out"
    return Spot("idle_term", term.place, says, advice)
