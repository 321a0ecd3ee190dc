"""How much a search does: all of it shares the processor time of one subject.

More of anything costs time that other edits need; each number says of what it is one.
"""

from __future__ import annotations

POINTS = 9
"""Points at which changed code is tried, besides the first wrong ones."""
SETTINGS = 2
"""Of them at other numbers that an object keeps."""
VARIED_POINTS = 6
"""Of them with other values of inputs."""
SMALLER_POINTS = 4
"""Small versions of a point that are looked at."""
SECONDS_AT_FIRST = 0.8
"""Seconds for the gradients at the first point."""
SECONDS_AT_OTHERS = 0.2
"""Seconds for the gradients at each other one."""
SECONDS_FOR_POINTS = 2.0
"""Seconds after which no more points are made ready."""
SECONDS_OF_RUN, TIMES_AS_LONG = 2.0, 20.0
"""Seconds that changed code may take, and how many times as long as the code as it stands; the
larger one."""
DEPTH = 4
"""Edits one after another: mistakes in one backward that are found one by one."""
WIDTH = 6
"""Versions of one depth that are edited further."""
VERSIONS_COMPARED = 12
"""Versions that are right, and are compared by the values on their way."""
FULL_CHECKS = 6
"""Versions that get the last, full check."""
BATCH = 32
"""Edits between two looks at the clock."""
SHARE_OF_QUICK = 0.45
"""Of the time, for what is quick to try."""
SHARE_OF_TERMS = 0.7
"""Of the time that is left, for missing terms: the rest is for what rules propose."""
NODES = 48
"""Expressions for each of which terms are looked for."""
PAIRS = 60
"""Of two terms that are added at once. Where there are more, few elements tell little."""
EXPRESSIONS = 8
"""Expressions that are tried, of those that fit a value."""
FACTORS = 6
"""Texts for one factor."""
CHOICES = 24
"""Choices of factors for several places at once."""
NUMBERS = 60
"""Numbers of the text that a factor may be made of."""
BOUNDS = 12
"""Numbers that elements are compared with."""
NUMBERS_IN_PLACE = 12
"""Numbers of the forward that are tried in one place."""
NAMED_ARRAYS = 20
"""Named arrays that are considered, and scalars of one kind."""
VISITS = 12
"""Of a loop's iterations so many are kept, the first ones."""
SECONDS_FOR_FORWARD = 0.4
"""Seconds for moving the expressions of the forward, and of each function that it calls; the others
are not known."""
RUNS_OF_FORWARD, MOST_FOR_FORWARD = 400, 1.6
"""The time of so many runs of a forward is added to it, up to so many seconds in all."""
SECONDS_FOR_SUSPECTS = 2.0
"""Seconds for looking at expressions where no repair was found."""
HELPERS = 4
"""Functions that a backward calls, and that are changed."""
FUNCTIONS_READ = 8
"""Functions that are read, besides the forward."""
TERMS_LOOKED_UP = 10_000_000
"""Elements of all terms that are compared with what one value lacks."""
SLOPES = 240
"""Derivatives of the forward's statements, and terms of them."""
