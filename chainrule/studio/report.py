"""A report of the verifier as a page: its own parts, and a player for each finding with a trace.

Without scripts the page says all that it says with them; they add the players.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chainrule.page.html import SCOPE, STYLE
from chainrule.studio.page import POLICY, document, page_scripts, style_sheet
from chainrule.traces.files import to_dict
from chainrule.traces.trace import Trace


def player_id(number: int) -> str:
    """Where the player of a finding goes."""
    return (
        f'<details class="play" data-trace="{number}"{" open" if number == 0 else ""}>'
        "<summary>Play this gradient: what the backward sends, and what differences give</summary>"
        "</details>"
    )


def _in_scope(part: str) -> str:
    """The report's own parts have its style; players have theirs."""
    return part if part.startswith("<details") else f'<div class="{SCOPE}">{part}</div>'


def report_page(title: str, parts: Sequence[str], traces: Mapping[int, Trace]) -> str:
    """The whole document; `parts` have places for the players of `traces`."""
    data = {"traces": {str(i): to_dict(t) for i, t in traces.items()}}
    styles = f"{style_sheet(['studio.css', 'report.css'])}\n{STYLE}"
    body = ["<main>", *[_in_scope(part) for part in parts], "</main>"]
    return document(title, styles, [*body, *page_scripts("report_document.mjs", data, {})], POLICY)
