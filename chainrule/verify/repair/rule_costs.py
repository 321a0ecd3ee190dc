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

# What is added or taken off for a place, or for what is known.

TRUE = 0.3
"""How much likelier a version is for each value that is known to be right in it."""
KEPT_TWICE = 0.6
"""How unlikely it is that one thing was meant to be kept twice: the backward could read it so."""
KEPT_LAST = 0.04
"""Of places where a forward may keep something else, the last one is the likeliest: what it keeps
for another call comes before."""
NAMED = 0.3
"""How much likelier an edit is that undoes a mistake which was named."""
UNREAD = 0.5
"""How much likelier an edit is that uses what was computed for something, and is not used."""
HANDED_ON = 0.35
"""How much unlikelier an edit is where a value is only handed on: the less, the oftener it reads
the value, which one would not compute that often."""
NO_COTANGENT = 0.3
"""How much unlikelier a term is missing in what no cotangent flows through."""
EARLY = 0.6
"""Of places on one way, each as good as the others, the last one is where a factor is written."""
OF_NUMBERS = 1.2
"""How unlikely it is that a factor is missing in a number: a count of fewer than there are."""
TOGETHER = 0.2
"""How unlikely a further place is at which the same was forgotten, of other elements."""
BY_CHANCE = 0.35
"""How unlikely it is that a small number is one that only code elsewhere has a name for."""
WORKED_OUT = 0.9
"""How unlikely it is that a number nobody has written belongs where a name stands."""
MADE = 0.5
"""How much less likely it is that a gradient was to be written where a place is returned."""
READ = 0.4
"""How much likelier it is that a place was to be filled which is read."""
PLAIN_COST = 1.05
"""A repair of the backward that costs more is compared with one of what the forward keeps."""
OF_FORWARD = 0.1
"""How much less likely a repair of the forward is, of two that are right."""
OF_VALUE = 0.3
"""The same of a function that computes the value, where another one computes gradients only."""
SURE_COST = 0.95
"""One that costs more is compared with repairs of the functions that the backward calls."""

# How far a search goes on, and what a place costs by the values of the forward (`expected/`).

SLACK = 0.4
"""Edits that cost so much more than one that repairs everything are not tried."""
SLACK_OF_SEVERAL = 0.5
"""How much more, where it took several for that: one that repairs all at once may be less likely
than each of them."""
LIKELY_REPAIR = 1.7
"""A repair that costs no more than this is not looked for any further."""
NEAR = 1.2
"""How much more the costliest version may cost that is compared with others."""
QUICK = 1.5
"""Edits that cost no more are tried before terms are looked for."""
VICTIM = 0.5
"""What a place costs where wrong values come in."""
AFTER = 0.8
"""Where what comes out is right."""
BEFORE = 0.9
"""Where what comes out is only read for what is right."""
HERE = -0.3
"""Where right values come in and a multiple of the right one comes out."""
CALLED_SO = -0.05
"""Where another one comes out than the name says."""
TURNED = 0.5
"""How much less it says that a value is minus a cotangent: what is subtracted may be kept so."""
EVERYWHERE = 0.3
"""How much less likely an edit is that is needed in all places of the code."""
