"""A mistake that the record of a step shows, and the finding about it."""

from __future__ import annotations

from typing import NamedTuple

from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.script.step.record.tape import Entry
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.user_frames import placed


class Spot(NamedTuple):
    """A mistake that the record of a step shows."""

    code: str
    place: Place | None
    because: str
    advice: str
    edit: Edit | None = None
    """The same as changed code, where that is known."""
    subject: str = "the loss"


def spots_at(code: str, entry: Entry, because: str, advice: str) -> list[Spot]:
    """The one about a call; none if no line of the user's made it."""
    place = placed(entry.at)
    return [] if place is None else [Spot(code, place, because, advice)]


def spot_finding(spot: Spot) -> Finding:
    """The finding about one."""
    code, place, because, advice, edit, subject = spot
    return finding("warning", code, because, advice, place, subject=subject, edit=edit)
