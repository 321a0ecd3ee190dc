"""A finding about training, from what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.finding import Correction, Finding, Level, Name
from chainrule.verify.ledger import Checked, Ledger
from chainrule.verify.place import Place

KIND = "training"
"""What findings and lines of the ledger say that they are about."""


def said(
    level: Level,
    code: str,
    because: str,
    correction: str,
    place: Place | None,
    *,
    detail: str = "",
    subject: str = "training loop",
    kind: str = KIND,
    input: str = "",
    evidence: Sequence[str] = (),
    table: tuple[tuple[str, ...], ...] = (),
) -> Finding:
    """The finding `code`, with what to do in words: the right place for a line is the user's."""
    return Finding(
        level,
        subject,
        kind,
        input,
        (Name(code, because, detail),),
        place,
        evidence=tuple(evidence),
        correction=Correction(correction, place=place),
        table=table,
    )


def looked(ledger: Ledger, what: str, how: str) -> None:
    """Note in the ledger what was looked at; nothing was evaluated for it."""
    ledger.checked.append(Checked(what, KIND, 0, 0.0, how))
