"""Loops that copy one side of an array to the other: out[.., i, j] = x[.., j, i]."""

from __future__ import annotations

from chainrule.compile.graph.sizes import typical
from chainrule.compile.loops.expressions import Var
from chainrule.compile.loops.statements import For, Store

SIDE = 8
"""Rows and columns at least; a square of so many changes rows with columns in registers."""


def is_transposed_copy(s: For) -> bool:
    """Whether `s` is such a copy: out[.., i, j] = x[.., j, i], sides at least a square. The size of
    j may be unknown if i runs over whole squares."""
    inner = s.body[0]
    if len(s.body) != 1 or not isinstance(inner, For) or inner.mode != "lanes":
        return False
    if s.upto is not None or inner.upto is not None:
        return False
    store = inner.body[0]
    if len(inner.body) != 1 or not isinstance(store, Store) or store.add:
        return False
    x = store.value
    if x.kind != "load" or x.of[2] is not None or x.dtype.kind != "f":
        return False
    i, j, at = s.var, inner.var, x.of[1]
    m, n = i.extent, j.extent
    if not isinstance(m, int) or m < SIDE or typical(n) < SIDE or x.dtype.itemsize > 4:
        return False
    if m % SIDE and not isinstance(n, int):
        return False
    plain = all(isinstance(v, Var) for v, _ in (*at.terms, *store.at.terms))
    across = at.coefficient(i) == 1 and store.at.coefficient(j) == 1
    return plain and across and at.coefficient(j) != 0 and store.at.coefficient(i) != 0
