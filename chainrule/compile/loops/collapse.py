"""Two loops as one, where together they run through memory without a gap.

    for i < m: for j < n lanes: y[n*i + j] = f(x[n*i + j])
    for k < m*n lanes: y[k] = f(x[k])

which leaves at most one vector that is not full, instead of one in each row.

Where rows are shorter than a vector, `interleave` does that for any places: what is no run through
memory has the upper or the lower bits of the counter (see `llvm/lane_patterns.py`).

    for t < T: for h < 4 lanes: y[4*t + h] = x[4*t + h] + u[t]
    for k < 4*T lanes: y[k] = x[k] + u[k >> 2]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from chainrule.compile.loops.accesses import accesses
from chainrule.compile.loops.expressions import (
    Affine,
    Exprs,
    Var,
    lower_bits,
    upper_bits,
    within,
)
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import For, Gemm, Product, Stmt, exprs_of, statements


def collapse(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """`body` with such loops put together, from the inside out."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For):
            s = replace(s, body=collapse(s.body))
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
    found = list(accesses(body))
    written = {x.buffer: x.at for x in found if x.writes}
    reads = [x for x in found if not x.writes]
    return any(x.buffer in written and written[x.buffer] != x.at for x in reads)


def _offsets(body: Sequence[Stmt]) -> Iterator[Affine]:
    yield from [x.at for x in accesses(body)]
    for s in statements(body):
        if isinstance(s, Gemm | For) and s.upto is not None:
            yield s.upto if isinstance(s, For) else s.upto[1]
        yield from [x.of for e in exprs_of(s) for x in within(e) if x.kind == "index"]


def _together(outer: For, inner: For) -> For:
    i, j = outer.var, inner.var
    both = Var(f"{i.name}_{j.name}", j.extent * i.extent)
    renaming = Renaming({i: Affine(), j: Affine.of(both)})
    return For(
        both, renaming.body(inner.body), inner.mode, None, outer.independent and inner.independent
    )


def interleave(e: Exprs, outer: Var, inner: Var, body: Sequence[Stmt], *, independent: bool) -> For:
    """Both loops as one over lanes; `inner` goes to a power of two."""
    n = inner.extent
    assert isinstance(n, int) and n > 1 and n & (n - 1) == 0, f"{n} is no power of two"
    both = Var(f"{outer.name}_{inner.name}", n * outer.extent)
    at, k = Affine.of(both), n.bit_length() - 1
    renaming = Renaming(
        {outer: upper_bits(e, at, k), inner: lower_bits(e, at, k)},
        exprs=e,
        merged={(outer, inner): at},
    )
    return For(both, renaming.body(body), "lanes", independent=independent)
