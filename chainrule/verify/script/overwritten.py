"""A loss of which the loop that makes it keeps the last one only: `=` where `+=` belongs.

The line that made the loss, or a part of it, made others of that kind before, in the same turn.
Nobody has read them, and nobody holds them any more: what they cost trained nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.ledger import TRAINING
from chainrule.verify.place import Place
from chainrule.verify.script.cuts import Slice
from chainrule.verify.script.entries import Entry
from chainrule.verify.script.remedies.source import Source
from chainrule.verify.script.sums import ELEMENTWISE, SCALING
from chainrule.verify.training.edits import Edit
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
    edit = summed(row.place)
    change = (edit.before, edit.after, edit.place) if edit is not None else ("", "", row.place)
    return Finding(
        "warning",
        "the loss",
        TRAINING,
        "",
        (Name("overwritten", because),),
        place=row.place,
        correction=Correction("add them up: `+=` on this line, from 0 before the loop", *change),
    )


def summed(place: Place) -> Edit | None:
    """The assignment on the line as a sum; None if nothing was assigned to its name before."""
    source = Source.at(place)
    statement = source.statement() if source is not None else None
    if source is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    name = statement.targets[0]
    if not isinstance(name, ast.Name):
        return None
    made = source.made(name)
    if made is name:
        return None
    text = source.text(statement.value)
    return source.with_pieces([(statement, f"{name.id} = {name.id} + {text}")])
