"""Terms of the loss that pass no gradient on: their value counts, and no parameter follows it.

A term is what is only added to the others on the way to the loss. It is idle if it comes from
parameters, and all ways to them lead through calls that have no derivative (comparisons, choices,
counts) or a derivative that is 0 wherever they are (rounding, signs). What was cut on purpose or
left as a number is priced elsewhere (`cut_findings`).
"""

from __future__ import annotations

from collections.abc import Iterator

from chainrule.verify.place import Place
from chainrule.verify.script.step.cuts import Slice
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.script.step.tape import NUMBER, Entry, back
from chainrule.verify.script.step.terms import SCALING, is_linear, terms_of_sum
from chainrule.verify.where import placed, users_line

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


def adding_calls(part: Slice) -> Iterator[Entry]:
    """Calls that only add, or multiply by constants, on the way to the loss; the last one first."""
    return filter(is_linear, part.back({part.loss}, terms_of_sum))


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
