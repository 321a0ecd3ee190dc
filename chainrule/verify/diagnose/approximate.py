"""Gradients that are right to some digits, and no change of the code makes them more: a solver that
stops at a tolerance, a table, a series that is cut off.

They are no derivative to the last digit, and nobody meant them to be. What is a mistake and as
small, a constant written with few digits, is one that a change of the code ends.
"""

from __future__ import annotations

from dataclasses import replace

from chainrule.verify.evidence import Evidence
from chainrule.verify.finding import Finding, Name
from chainrule.verify.tolerances import LOOSE

_VAGUE = ("unnamed", "wrong_value", "region")
"""What a finding is called if nothing is known but that it is wrong."""


def as_approximation(evidence: Evidence, finding: Finding) -> Finding:
    """The finding, as a note if its gradient is so nearly right at every point that was tried."""
    names = [x.name for x in evidence.subject.inputs]
    if finding.input not in names or finding.name.code not in _VAGUE:
        return finding
    k = names.index(finding.input)
    errors = [t.error for t in evidence.trials if t.input == k and t.verdict == "wrong"]
    told = [b for b in evidence.behaviours if b.input in (k, None)]
    c = finding.correction
    is_changed = c is not None and c.rechecked and bool(c.after)
    if not errors or max(errors) > LOOSE or told or is_changed:
        return finding
    says = f"off by at most {max(errors):.1g} of its size at every point tried, by no known mistake"
    return replace(finding, level="note", names=(Name("approximate", says),), correction=None)
