"""Which kernels can be a band, and how they come to stand side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chainrule.compile.loops.expressions import Buffer, Var
from chainrule.compile.loops.statements import Gemm, Kernel, Product, Routine, statements
from chainrule.compile.lower.attention_blocks.band_types import (
    Call,
    Rows,
    Uses,
    call_of,
    offsets,
    split_nest,
    transpose_gemm,
)

NEAR = 64
"""How many kernels further on one is looked for that uses what a kernel of rows computes."""
LEAST = 128
"""Rows of a band, at least."""


def makers(kernels: Sequence[Kernel], at: int, rows: Rows, uses: Uses) -> Iterator[Call]:
    """Calls of BLAS that compute scratch memory for the kernel of rows."""
    wanted = {b for b in uses.of(rows.kernel)[0] if b.role == "scratch"}
    writers: dict[Buffer, list[Kernel]] = {}
    if not wanted:
        return
    for k in kernels[:at]:
        for b in uses.of(k)[1]:
            if b in wanted:
                writers.setdefault(b, []).append(k)
    for b, ks in writers.items():
        found = call_of(ks[0])
        if len(ks) != 1 or found is None:
            continue
        leads, s = found
        if not _same(leads, rows.leads):
            continue
        steps = {x.coefficient(rows.row) for x in offsets(rows.body, b)}
        if steps == {s.out.row} and s.m == rows.row.extent:
            yield Call(ks[0], leads, s, "m", transposed=False, makes=True)
        elif steps == {s.out.col} and s.n == rows.row.extent:
            yield Call(ks[0], leads, transpose_gemm(s), "m", transposed=True, makes=True)


def rows_of(k: Kernel) -> Rows | None:
    """The kernel as one of rows, if it is one, of so many rows that are known."""
    counters, body = split_nest(k)
    if not counters or any(isinstance(s, Gemm | Product | Routine) for s in statements(body)):
        return None
    count = counters[-1].extent
    if not isinstance(count, int) or count < LEAST:
        return None
    return Rows(k, tuple(counters[:-1]), counters[-1], body)


def band_candidates(
    kernels: Sequence[Kernel], at: int, first: Rows, uses: Uses, *, several: bool
) -> list[Rows | Call]:
    """What could be a band with the kernel of rows `first`: with `several`, other such kernels that
    read what it computes, too."""
    found: list[Rows | Call] = [*makers(kernels, at, first, uses)]
    if not found:
        return []
    found.append(first)
    own = {b for p in found for b in uses.of(p.kernel)[1]}
    for n in range(at + 1, min(at + 1 + NEAR, len(kernels)) if several else 0):
        reads, writes = uses.of(kernels[n])
        more = rows_of(kernels[n]) if not own.isdisjoint(reads) else None
        if more is not None and _same((*more.leads, more.row), (*first.leads, first.row)):
            known = {p.kernel for p in found}
            found += [c for c in makers(kernels, n, more, uses) if c.kernel not in known]
            found.append(more)
            own |= {b for p in found for b in uses.of(p.kernel)[1]} | set(writes)
    bodies = [p for p in found if isinstance(p, Rows)]
    return [*found, *users(kernels, at, bodies, own)]


def users(
    kernels: Sequence[Kernel], at: int, bodies: Sequence[Rows], own: set[Buffer]
) -> Iterator[Call]:
    """Calls of BLAS that use what the band computes."""
    rows = bodies[0]
    for k in kernels[at + 1 : at + 1 + NEAR]:
        found = call_of(k)
        if found is None or not _same(found[0], rows.leads):
            continue
        leads, s = found
        if s.left.buffer in own and s.right.buffer not in own:
            turned = False
        elif s.right.buffer in own and s.left.buffer not in own:
            s, turned = transpose_gemm(s), True
        else:
            continue
        steps = {x.coefficient(p.row) for p in bodies for x in offsets(p.body, s.left.buffer)}
        if steps == {s.left.row} and s.m == rows.row.extent:
            yield Call(k, leads, s, "m", turned)
        elif steps == {s.left.col} and s.k == rows.row.extent:
            yield Call(k, leads, s, "k", turned)


def _same(some: Sequence[Var], others: Sequence[Var]) -> bool:
    return [v.extent for v in some] == [v.extent for v in others]


Order = tuple[list[Kernel], list[Rows | Call], list[Kernel], int, int]


def together(kernels: Sequence[Kernel], parts: Sequence[Rows | Call], uses: Uses) -> Order | None:
    """The parts side by side: kernels that come before them now, the parts, those that come after,
    and where all of these begin and end. A user that has to wait for others is left out."""
    needed = {p.kernel for p in parts if isinstance(p, Rows)}
    needed |= {p.kernel for p in parts if isinstance(p, Call) and p.makes}
    by_kernel = {p.kernel: p for p in parts}
    places = [n for n, k in enumerate(kernels) if k in by_kernel]
    first, last = places[0], places[-1]
    before, after = list[Kernel](), list[Kernel]()
    taken: list[Rows | Call] = []
    for k in kernels[first : last + 1]:
        p = by_kernel.get(k)
        waits = any(_meet(x, k, uses) for x in after)
        if p is not None and not waits:
            taken.append(p)
        elif k in needed:
            return None
        elif waits or any(_meet(x.kernel, k, uses) for x in taken):
            after.append(k)
        else:
            before.append(k)
    return before, taken, after, first, last


def _meet(a: Kernel, b: Kernel, uses: Uses) -> bool:
    """Whether `b` has to stay behind `a`."""
    (reads, writes), (others, theirs) = uses.of(a), uses.of(b)
    return not set(writes).isdisjoint([*others, *theirs]) or not set(reads).isdisjoint(theirs)
