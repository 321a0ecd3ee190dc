"""A finding about training, from what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.finding import Correction, Finding, Level, Name
from chainrule.verify.ledger import TRAINING, Checked, Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.text.edits import Edit


def finding(
    level: Level,
    code: str,
    because: str,
    correction: str,
    place: Place | None,
    *,
    detail: str = "",
    subject: str = "training loop",
    kind: str = TRAINING,
    input: str = "",
    evidence: Sequence[str] = (),
    table: tuple[tuple[str, ...], ...] = (),
    edit: Edit | None = None,
) -> Finding:
    """The finding `code`, with what to do in words and, where that is known, as changed code."""
    change = Correction(correction, place=place)
    if edit is not None:
        change = Correction(correction, edit.before, edit.after, edit.place)
    return Finding(
        level,
        subject,
        kind,
        input,
        (Name(code, because, detail),),
        place,
        evidence=tuple(evidence),
        correction=change,
        table=table,
    )


def checked(ledger: Ledger, what: str, how: str) -> None:
    """Note in the ledger what was looked at; nothing was evaluated for it."""
    ledger.checked.append(Checked(what, TRAINING, 0, 0.0, how))
