"""A loss of which the loop that makes it keeps the last one only: `=` where `+=` belongs.

The line that made the loss, or a part of it, made others of that kind before, in the same turn.
Nobody has read them, and nobody holds them any more: what they cost trained nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.script.cuts import Slice
from chainrule.verify.script.entries import Entry
from chainrule.verify.script.remedies.source import statement_at
from chainrule.verify.script.sums import ELEMENTWISE, SCALING
from chainrule.verify.training.edits import Edit
from chainrule.verify.training.said import said
from chainrule.verify.where import placed

_PASSES_ON = ELEMENTWISE | SCALING


@dataclass(frozen=True)
class Overwritten:
    """Losses that were made on a line and not used."""

    place: Place
    name: str
    """Of the call that made them."""
    count: int


def overwritten(part: Slice, since: int, is_alive: Callable[[int], bool]) -> list[Overwritten]:
    """Losses that went nowhere, like one that is a term of this loss.

    Args:
        part: What the loss depends on.
        since: How many entries there were at the last backward pass.
        is_alive: Whether somebody still has the tensor of a slot.
    """
    terms = {(e.name, e.at): placed(e.at) for e in _terms(part)}
    recent = part.tape.entries[since:]
    alike = [e for e in recent if e.is_live and e.connected and (e.name, e.at) in terms]
    if len(alike) < 2:
        return []
    read = {s for e in recent for s in e.inputs} | {x.slot for x in part.tape.exits} | {part.loss}
    gone = [e for e in alike if not any(s in read or is_alive(s) for s in e.outputs)]
    counts = Counter([(e.name, e.at) for e in gone])
    rows = [(terms[key], key[0], count) for key, count in counts.items()]
    return [Overwritten(place, name, count) for place, name, count in rows if place is not None]


def _terms(part: Slice) -> list[Entry]:
    """The call that made the loss; if that only adds or scales numbers, those that made these."""
    need, found = {part.loss}, list[Entry]()
    for entry in reversed(part.entries):
        if need.intersection(entry.outputs):
            found.append(entry)
            if entry.name in _PASSES_ON:
                need.update(entry.connected)
    return found


def found_overwritten(row: Overwritten) -> Finding:
    """The finding."""
    some = "one loss" if row.count == 1 else f"{row.count} losses"
    because = (
        f"{some} that `{row.name}` made on this line in the step were replaced by the next one and "
        "never read: only the last one trains"
    )
    advice = "add them up: `+=` on this line, from 0 before the loop"
    edit = summed(row.place)
    subject = "the loss"
    return said("warning", "overwritten", because, advice, row.place, subject=subject, edit=edit)


def summed(place: Place) -> Edit | None:
    """The assignment on the line as a sum; None if nothing was assigned to its name before."""
    match statement_at(place):
        case source, ast.Assign(targets=[ast.Name() as name], value=value) as statement:
            if source.made(name) is name:
                return None
            text = f"{name.id} = {name.id} + {source.text(value)}"
            return source.with_pieces([(statement, text)])
        case _:
            return None
