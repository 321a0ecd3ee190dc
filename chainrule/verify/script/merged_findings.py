"""The findings of a run in the order of their weight, equal ones once."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.finding import Finding

_LEVELS = ("error", "warning", "note")
_NEAR = "near_formula"
_PARTS = ("scalar engine", "NumPy pair", "NumPy layer")


def merge_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Errors, warnings, notes, each in the order in which they came; equal ones once. What an
    optimizer should have, and has not, goes before cuts that may be meant: given to it, they are.

    Where an engine of the user's is wrong, or a layer by hand, so are the gradients that it makes.
    Two findings are equal if they give one name to the same line and the same input. What is near a
    known formula is not told of where something else is wrong on that line.
    """
    once: dict[tuple[str, str, str], Finding] = {}
    parts = any(f.kind in _PARTS and f.level != "note" for f in findings)
    wrong = [f for f in findings if not (parts and f.kind == "training step by hand")]
    for finding in sorted(wrong, key=_order):
        where = str(finding.place) if finding.place else finding.subject
        once.setdefault((finding.name.code, where, finding.input), finding)
    other = {str(f.place) for f in once.values() if f.name.code != _NEAR and f.level != "note"}
    return [f for f in once.values() if f.name.code != _NEAR or str(f.place) not in other]


def _order(finding: Finding) -> tuple[int, bool]:
    forgotten = finding.level == "warning" and finding.name.code == "not_optimized"
    return _LEVELS.index(finding.level), not forgotten
