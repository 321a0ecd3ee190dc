"""Findings of several observers as one list: each mistake once, the worst first."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.finding import Finding

_LEVELS = ("error", "warning", "note")


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """Errors, warnings, notes, each in the order in which they came; equal ones once. What an
    optimizer should have, and has not, goes before cuts that may be meant: given to it, they are.

    Two findings are equal if they give one name to the same line and the same input.
    """
    once: dict[tuple[str, str, str], Finding] = {}
    for finding in sorted(findings, key=_order):
        where = str(finding.place) if finding.place else finding.subject
        once.setdefault((finding.name.code, where, finding.input), finding)
    return list(once.values())


def _order(finding: Finding) -> tuple[int, bool]:
    forgotten = finding.level == "warning" and finding.name.code == "not_optimized"
    return _LEVELS.index(finding.level), not forgotten
