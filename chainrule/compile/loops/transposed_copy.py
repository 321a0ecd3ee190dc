"""Loops that copy one side of an array to the other: out[.., i, j] = x[.., j, i]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chainrule.compile.graph.sizes import typical
from chainrule.compile.loops.expressions import Var
from chainrule.compile.loops.statements import For, Let, Stmt, Store

SIDE = 8
"""Rows and columns at least; a square of so many changes rows with columns in registers."""


def is_transposed_copy(s: For) -> bool:
    """Whether `s` is such a copy: out[.., i, j] = x[.., j, i], sides mostly at least a square."""
    inner = s.body[0]
    if len(s.body) != 1 or not isinstance(inner, For) or inner.mode != "lanes":
        return False
    if s.upto is not None or inner.upto is not None:
        return False
    store = copying_store(inner.body)
    if store is None:
        return False
    x = store.value
    if x.kind != "load" or x.of[2] is not None or x.dtype.kind != "f":
        return False
    i, j, at = s.var, inner.var, x.of[1]
    if min(typical(i.extent), typical(j.extent)) < SIDE or x.dtype.itemsize > 4:
        return False
    plain = all(isinstance(v, Var) for v, _ in (*at.terms, *store.at.terms))
    across = at.coefficient(i) == 1 and store.at.coefficient(j) == 1
    return plain and across and at.coefficient(j) != 0 and store.at.coefficient(i) != 0


def copying_store(body: Sequence[Stmt]) -> Store | None:
    """The store that is all of a body, None if that is anything else. A number that is in a
    register first is stored as it is."""
    *before, store = body
    if not isinstance(store, Store) or store.add or len(before) > 1:
        return None
    if not before:
        return store
    (let,) = before
    if not isinstance(let, Let) or store.value.kind != "local" or store.value.of is not let.local:
        return None
    return replace(store, value=let.value)
