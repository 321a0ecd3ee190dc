"""Several workers train one model: the same program on each, on parts of each batch."""

from chainrule.border import with_border as _with_border
from chainrule.parallel.checkpoint import load, save
from chainrule.parallel.group import Group, group
from chainrule.spellings import no_part as _no_part

__all__ = ["Group", "group", "load", "save"]
__getattr__ = _no_part(__name__)
_with_border(globals())
