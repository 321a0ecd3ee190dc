"""Assignment as what it is: `index_put`, `scatter` and the like write some elements, in place if
nobody needs the old array.

| term | is |
|---|---|
| the last writer's element where there is one, else the old one | the old array, then the writes |
| writes at all places of whole rows | writes of rows |

The ops say it by arrays as large as what is written to, because derivatives are simple then. Where
a loop writes one row of a large array each time, such arrays would be most of its work.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.compile.graph.loop_body import Keep
from chainrule.compile.graph.rules.rewriter import Rewriter, Rule, is_constant, number
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.views import expand_key
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.index_arrays import Index
from chainrule.ops.indexing.scattering import LastWriter
from chainrule.ops.indexing.selection import Take, Where
from chainrule.ops.shapes.shaping import Reshape

_ALL = (None, None, None)
"""A slice of everything."""


def _where(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    holds, new, old = args
    writer = _writer(holds)
    taken = isinstance(new.op, Take) and new.op.axis == 0 and new.args[1] is writer
    if writer is None or not taken or new.dtype != old.dtype or old.shape != writer.shape:
        return None
    (places,), source = writer.args, new.args[0]
    rows = _rows(r, places)
    if rows is None:
        return r.op(Keep(), old, places, r.op(Reshape(places.shape), source))
    at, (count, length) = rows
    table = r.op(Reshape((count, length)), old)
    kept = r.op(Keep(), table, at, r.op(Reshape((*at.shape, length)), source))
    return r.op(Reshape(old.shape), kept)


def _writer(holds: Term) -> Term | None:
    """The last writers, if `holds` says for which places there is one."""
    if holds.op is not ew.greater_equal or number(holds.args[1]) != 0:
        return None
    writer = holds.args[0]
    return writer if isinstance(writer.op, LastWriter) else None


def _rows(r: Rewriter, places: Term) -> tuple[Term, tuple[int, int]] | None:
    """The numbers of the rows, how many there are and how long they are, if `places` are all those
    of some rows. They are what arrays of integers along the first axes select from 0, 1, 2, ..."""
    if isinstance(places.op, Take) and places.op.axis == 0:
        lead = 1
    elif isinstance(places.op, Index):
        key = expand_key(places.op.template, len(places.args[0].shape))
        lead = sum([isinstance(k, str) for k in key])
        arrays, rest = key[:lead], key[lead:]
        if not all(isinstance(k, str) for k in arrays) or rest != [_ALL] * len(rest):
            return None
    else:
        return None
    numbers, *indices = places.args
    known = is_constant(numbers) and all(x.dtype.kind in "iu" for x in indices)
    if not known or lead == len(numbers.shape):
        return None
    shape = np.shape(numbers.value)
    size, count = math.prod(shape), math.prod(shape[:lead])
    if not np.array_equal(np.ravel(numbers.value), np.arange(size)):
        return None
    at = indices[0]
    if lead > 1:
        first = r.constant(np.arange(count).reshape(shape[:lead]))
        at = r.op(Index(("index array",) * lead), first, *indices)
    return at, (count, size // count)


INDEX_ASSIGNMENT: dict[type, Rule] = {Where: _where}
"""The rules, by class of op."""
