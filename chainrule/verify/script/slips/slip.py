"""What the text of a script shows to be wrong, at a line."""

from __future__ import annotations

from typing import NamedTuple

from chainrule.verify.finding import Level


class Slip(NamedTuple):
    """One of them."""

    code: str
    line: int
    says: str
    advice: str
    after: str = ""
    """The line as it should be, without its indent."""
    level: Level = "warning"
