"""How unlikely a slip is: the costs of the rules, in one place.

What costs less is tried first, and of two edits after which all is right the cheaper one is shown.
The levels are apart by more than what a rule adds for a single place (`proposals.py`).
"""

from __future__ import annotations

SHOWN = 0.5
"""Something in the code shows that it was meant: a value that is computed and never read."""
LIKELY = 0.9
"""One word for its counterpart: `mean` for `sum`, a factor too much."""
USUAL = 1.2
"""Slips that are often published: an axis, an operand, a comparison."""
RARE = 1.5
"""An index off by one, a call that is missing."""
FAR = 1.8
"""What is tried when nothing else helps: it fits in many places."""
