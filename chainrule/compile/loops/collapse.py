"""Two loops as one, where together they run through memory without a gap.

    for i < m: for j < n lanes: y[n*i + j] = f(x[n*i + j])
    for k < m*n lanes: y[k] = f(x[k])

which leaves at most one vector that is not full, instead of one in each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from chainrule.compile.loops.expressions import Affine, Var, within
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Product,
    Routine,
    Stmt,
    Store,
    exprs_of,
    statements,
)


def collapsed(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """`body` with such loops put together, from the inside out."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For):
            s = replace(s, body=collapsed(s.body))
            inner = s.body[0]
            if len(s.body) == 1 and isinstance(inner, For) and _fit(s, inner):
                s = _together(s, inner)
        out.append(s)
    return tuple(out)


def _fit(outer: For, inner: For) -> bool:
    if outer.mode != "serial" or outer.upto is not None or inner.upto is not None:
        return False
    if any(isinstance(s, Product) for s in statements(inner.body)):
        return False
    if _waits(inner.body):
        return False
    i, j = outer.var, inner.var
    return all(at.coefficient(i) == at.coefficient(j) * j.extent for at in _offsets(inner.body))


def _waits(body: Sequence[Stmt]) -> bool:
    """Whether an element is read where another iteration may have written it: a running sum."""
    written = {s.buffer: s.at for s in statements(body) if isinstance(s, Store)}
    found = [x for s in statements(body) for e in exprs_of(s) for x in within(e)]
    loads = [x for x in found if x.kind == "load"]
    return any(x.of[0] in written and written[x.of[0]] != x.of[1] for x in loads)


def _offsets(body: Sequence[Stmt]) -> Iterator[Affine]:
    for s in statements(body):
        if isinstance(s, Store):
            yield s.at
        if isinstance(s, Gemm):
            yield from (s.left.at, s.right.at, s.out.at)
            yield from [s.upto[1]] if s.upto is not None else []
        if isinstance(s, Routine):
            yield from [x.at for x in s.spans("in", "out", "inout")]
        if isinstance(s, For) and s.upto is not None:
            yield s.upto
        for e in exprs_of(s):
            for x in within(e):
                if x.kind == "load":
                    yield x.of[1]
                elif x.kind == "index":
                    yield x.of


def _together(outer: For, inner: For) -> For:
    i, j = outer.var, inner.var
    both = Var(f"{i.name}_{j.name}", j.extent * i.extent)
    renaming = Renaming({i: Affine(), j: Affine.of(both)})
    return For(both, renaming.body(inner.body), inner.mode)
