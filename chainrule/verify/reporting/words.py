"""Words that all forms of a report share."""

from __future__ import annotations

from chainrule.verify.finding import Finding


def trial_outcome(finding: Finding) -> str:
    """Whether a finding's correction was tried, and how that went; empty if there was nothing to
    try, as where it is advice about a training loop."""
    correction = finding.correction
    if correction is None or not (correction.rechecked or finding.error is not None):
        return ""
    if not correction.rechecked:
        return "not shown to be right by a trial"
    if finding.error is None and correction.error is None:
        return "tried: the program ran so once more, and this was not found again"
    error = "" if correction.error is None else f", error {correction.error:.1e}"
    return f"tried on the same values and on others: right{error}"
