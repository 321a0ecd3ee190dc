"""From what was measured to what it is called: `diagnose(evidence) -> findings`.

Each rule predicts what the wrong Jacobian A would be, made from the true one N, if one mistake had
been made, and is heard if that leaves nothing of their difference but rounding. Plain explanations
go before far-fetched ones. Where none fits the finding is "unnamed", with a description.
"""

from __future__ import annotations

from chainrule.verify.diagnose.findings import diagnose

__all__ = ["diagnose"]
