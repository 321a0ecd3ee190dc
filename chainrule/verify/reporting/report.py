"""What a run of the verifier comes to: findings, and the ledger of what was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.files.whole_files import write_whole
from chainrule.verify.finding import LEVELS, Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.reporting.as_text import lines, plain

if TYPE_CHECKING:
    from rich.text import Text


class Report:
    """Findings, the worst and the first in the order of the forward pass before others.

    `str()` is what the terminal shows, without colours; `rich` shows it with them, and a notebook
    as the page that `to_html` writes.

    Args:
        what: What was verified, as the user called it: "Attention", "train.py".
        findings: What was found, in order.
        ledger: What was looked at, and what was not.

    >>> report = cr.verify.check(lambda x: x * x, np.ones(2))
    >>> report.ok, report.findings
    (True, ())
    """

    def __init__(self, what: str, findings: Sequence[Finding], ledger: Ledger) -> None:
        self.what = what
        self.findings = tuple(findings)
        self.ledger = ledger

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong: notes do not count."""
        return all(f.level == "note" for f in self.findings)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return plain(lines(self.what, self.findings, self.ledger))

    def __repr__(self) -> str:
        return f"<Report of {self.what}: {len(self.findings)} findings, ok={self.ok}>"

    def _repr_html_(self) -> str:
        from chainrule.page.html import fragment
        from chainrule.verify.reporting.as_html import report_sections

        return fragment(report_sections(self.what, self.ok, self.findings, self.ledger))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __rich__(self) -> Text:
        from rich.text import Text

        text = Text(no_wrap=False)
        for line in lines(self.what, self.findings, self.ledger):
            for words, style in line:
                text.append(words, style)
            text.append("\n")
        return text

    def to_json(self, indent: int | None = 2) -> str:
        """The whole report as JSON; docs/verify.md lists its fields."""
        from chainrule.verify.reporting.as_json import report_json

        return report_json(self.what, self.ok, self.findings, self.ledger, indent)

    def to_sarif(self) -> str:
        """SARIF 2.1.0, which code review shows beside the lines."""
        from chainrule.verify.reporting.as_sarif import report_sarif

        return report_sarif(self.findings)

    def to_html(self) -> str:
        """One page that needs nothing else, with pictures of both Jacobians."""
        from chainrule.verify.reporting.as_html import report_html

        return report_html(self.what, self.ok, self.findings, self.ledger)

    def save(self, path: str | Path) -> Path:
        """Write to `path`: .json, .sarif, .html or .txt.

        Raises:
            ValueError: For another ending.
        """
        path = Path(path)
        writers = {
            ".json": self.to_json,
            ".sarif": self.to_sarif,
            ".html": self.to_html,
            ".txt": self.__str__,
        }
        if path.suffix not in writers:
            raise ValueError(
                f"cannot tell the format from '{path.name}': end it in {', '.join(writers)}"
            )
        write_whole(path, writers[path.suffix]())
        return path


def joined(what: str, reports: Sequence[Report]) -> Report:
    """One report of several on the same thing. What a later one finds again is said once."""
    if len(reports) == 1:
        return reports[0]
    every = sorted([f for r in reports for f in r.findings], key=lambda f: LEVELS.index(f.level))
    found = {(f.subject, f.kind, f.input, f.name.code, f.place): f for f in reversed(every)}
    ledger = Ledger()
    for part in [report.ledger for report in reports]:
        ledger.checked += part.checked
        ledger.skipped += part.skipped
        if ledger.planted is None or not ledger.planted.caught:
            ledger.planted = part.planted or ledger.planted
    return Report(what, list(found.values())[::-1], ledger)
