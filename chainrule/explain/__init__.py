"""Explanations that name the culprit: the op and the user's line, in words and as fields."""

from chainrule.engine.border import with_border as _with_border
from chainrule.explain.kept_memory import Saved, saved_bytes
from chainrule.explain.leaks import Leak, Leaks, leaks
from chainrule.explain.nan import BadOp, first_bad, trap_nan
from chainrule.explain.read_only_arrays import Keepers, who_keeps
from chainrule.explain.strict import strict
from chainrule.explain.why import Why, why

__all__ = [
    "BadOp",
    "Keepers",
    "Leak",
    "Leaks",
    "Saved",
    "Why",
    "first_bad",
    "leaks",
    "saved_bytes",
    "strict",
    "trap_nan",
    "who_keeps",
    "why",
]

_with_border(globals())
