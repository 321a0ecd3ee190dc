"""Which kernels are split over cores, and how: a pass over loops.

A loop is parallel where its iterations touch nothing that another one writes, and where there is
enough work. What is one long loop over lanes, one large product or one call of BLAS becomes blocks
first; what is left over beyond the last block is a kernel of its own. Neither blocks nor results
depend on how many threads there are.

    for i < 1000000 lanes: y[i] = ...     becomes     for c < 244 parallel:
                                                        for i < 4096 lanes: y[4096*c + i] = ...
                                                      for i < 576 lanes: y[i + 999424] = ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from chainrule.compile.llvm.turn import is_turn
from chainrule.compile.loops import (
    Affine,
    Buffer,
    For,
    Gemm,
    Host,
    Into,
    Kernel,
    Let,
    Loops,
    Matrix,
    Product,
    Stmt,
    Store,
    Var,
    exprs_of,
    statements,
    within,
)
from chainrule.compile.rewrite import Renaming
from chainrule.compile.sizes import Extent, product, typical

WORTH = 20_000.0
"""Nanoseconds of work, by an estimate, from which on a kernel is split: some ten times what waking
a thread costs."""
LEAST = 2_000.0
"""Nanoseconds of work in a block or a chunk, at least."""
ENOUGH = 64
"""So many iterations are enough: a loop within a parallel loop is not made parallel, too."""
UNIT = 64
"""Blocks are a multiple of this: whole vectors, whole tiles, whole cache lines."""


def split(program: Loops) -> Loops:
    """The program with parallel loops: a kernel that has one has nothing else."""
    kernels = [p for k in program.kernels for p in _pieces(k)]
    return replace(program, kernels=kernels)


def is_parallel(k: Kernel) -> bool:
    """Whether it is split over cores."""
    (first, *_) = k.body
    return isinstance(first, For) and first.mode == "parallel"


def nest(k: Kernel) -> tuple[list[Var], tuple[Stmt, ...]]:
    """The counters of a kernel's parallel loops, which are as one, and what is in them."""
    counters, body = list[Var](), k.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].mode == "parallel":
        counters.append(body[0].var)
        body = body[0].body
    return counters, body


def iterations(k: Kernel) -> Extent:
    """How many iterations a parallel kernel has."""
    counters, _ = nest(k)
    return product([v.extent for v in counters])


def least(k: Kernel) -> int:
    """How many iterations of a parallel kernel are worth being taken at a time."""
    _, body = nest(k)
    return max(1, round(LEAST / max(nanoseconds(body), 1e-3)))


# --- kernels -------------------------------------------------------------------------------------


def _pieces(k: Kernel) -> list[Kernel]:
    """`k`, or in its place one kernel for each parallel loop and for what is between them."""
    if any(isinstance(s, Let | Into) for s in k.body):
        return [k]  # statements share numbers in registers
    out: list[list[Stmt]] = []
    plain = False
    for s in k.body:
        found = _marked(s, 1) if nanoseconds([s]) >= WORTH else None
        if found is not None:
            loop, rest = found
            out += [[loop], *([[rest]] if rest is not None else [])]
        elif plain:
            out[-1].append(s)
        else:
            out.append([s])
        plain = found is None
    if not any(isinstance(b[0], For) and b[0].mode == "parallel" for b in out):
        return [k]
    return [
        Kernel(k.name if i == 0 else f"{k.name}_{i}", tuple(b), k.about) for i, b in enumerate(out)
    ]


Split = tuple[Stmt, Stmt | None]
"""A parallel loop, and what it leaves over."""


def _marked(s: Stmt, around: int) -> Split | None:
    """`s` made parallel, where it is run for `around` iterations that are."""
    match s:
        case For() if s.mode == "serial" and not is_turn(s):
            return _nested(s, around)
        case For() if s.mode == "lanes" or is_turn(s):
            return _blocks(s, s.var, around)
        case Product():
            return _blocks(s, max((s.i, s.j), key=lambda v: typical(v.extent)), around)
        case Gemm():
            return _gemm(s, around)
        case _:
            return None


def _nested(s: For, around: int) -> Split | None:
    if not _independent(s.var, [s]):
        return None
    count = typical(s.var.extent) * around
    inner = _marked(s.body[0], count) if len(s.body) == 1 and count < ENOUGH else None
    if inner is not None:
        loop, rest = inner
        left = None if rest is None else For(s.var, (rest,))
        return For(s.var, (loop,), "parallel"), left
    return None if count < 2 else (For(s.var, s.body, "parallel"), None)


def _blocks(s: For | Product, v: Var, around: int) -> Split | None:
    """`s` in blocks along its counter `v`."""
    n = v.extent
    if not isinstance(n, int) or not _independent(v, [s]):
        return None
    # is_turn goes on in squares, whose sides are within a unit
    size = _size(n, around, LEAST / (nanoseconds([s]) / n))
    if size is None:
        return None
    outer = Var(f"{v.name}_b", n // size)
    loop = For(outer, (_part(s, v, Affine(0, ((outer, size),)), size),), "parallel")
    left = n % size
    return loop, _part(s, v, Affine(n - left), left) if left else None


def _size(n: int, around: int, smallest: float) -> int | None:
    """Iterations in a block, of n; None if there is no point in blocks."""
    wanted = max(n * around / ENOUGH, smallest, UNIT)
    units, most = max(1, round(wanted / UNIT)), n // (2 * UNIT)
    if units > most:
        return None
    # rather a size that leaves nothing over
    near = [u for u in range(units, min(2 * units, most) + 1) if n % (u * UNIT) == 0]
    return (near[0] if near else units) * UNIT


def _part(s: For | Product, v: Var, start: Affine, size: int) -> For | Product:
    """`s` for `size` values of its counter `v` from `start` on."""
    new = Var(v.name, size)
    change = Renaming({v: start.plus(Affine.of(new))})
    if isinstance(s, For):
        return For(new, change.body(s.body), s.mode)
    i, j = (new if v is x else x for x in (s.i, s.j))
    left, right = change.expr(s.left), change.expr(s.right)
    return Product(i, j, s.k, left, right, s.acc, change.body(s.body))


def _gemm(s: Gemm, around: int) -> Split | None:
    """A product in blocks of rows or columns, about eight in all: each packs what it reads anew."""
    by_rows = typical(s.m) >= typical(s.n)
    n = s.m if by_rows else s.n
    if not isinstance(n, int) or s.out.buffer in (s.left.buffer, s.right.buffer):
        return None
    size = max(2 * UNIT, -(-n * around // (8 * UNIT)) * UNIT)
    if size > n // 2:
        return None
    outer = Var("block", n // size)

    def part(start: Affine, m: int) -> Gemm:
        if by_rows:
            return replace(s, m=m, left=_from(s.left, start, 0), out=_from(s.out, start, 0))
        return replace(s, n=m, right=_from(s.right, start, 1), out=_from(s.out, start, 1))

    left = n % size
    loop = For(outer, (part(Affine(0, ((outer, size),)), size),), "parallel")
    return loop, part(Affine(n - left), left) if left else None


def _from(x: Matrix, start: Affine, axis: int) -> Matrix:
    """A matrix from row, or column, `start` on."""
    return replace(x, at=x.at.plus(start.times(x.col if axis else x.row)))


# --- who touches what ----------------------------------------------------------------------------


def _independent(v: Var, body: Sequence[Stmt]) -> bool:
    """Whether no iteration of `v` touches what another one writes.

    In each buffer that is written, the places that iteration i touches must lie in a window that
    moves with i: from c i on, less than c long, and perhaps again every c n.
    """
    written = {b for b, _, _ in _places(body, stores=True)}
    places = [(b, at, sizes) for b, at, sizes in _places(body) if b in written]
    inner = _counters(body) - {v}
    return all(
        _windows(v, inner, [(at, sizes) for b, at, sizes in places if b is buffer])
        for buffer in written
    )


Place = tuple[Buffer, Affine, dict[Var, Extent]]


def _places(body: Sequence[Stmt], *, stores: bool = False) -> Iterator[Place]:
    """Buffers and offsets in them; a matrix brings counters for its rows and columns."""
    for s in statements(body):
        if isinstance(s, Store):
            yield s.buffer, s.at, {}
        if isinstance(s, Gemm):
            yield _matrix(s.out, s.m, s.n)
            if not stores:
                yield from [_matrix(s.left, s.m, s.k), _matrix(s.right, s.k, s.n)]
        if not stores:
            loads = [x for e in exprs_of(s) for x in within(e) if x.kind == "load"]
            yield from [(x.of[0], x.of[1], {}) for x in loads]


def _matrix(x: Matrix, rows: Extent, cols: Extent) -> Place:
    i, j = Var("row", rows), Var("col", cols)
    at = x.at.plus(Affine(0, ((i, x.row), (j, x.col))))
    return x.buffer, at, {i: rows, j: cols}


def _counters(body: Sequence[Stmt]) -> set[Var]:
    out: set[Var] = set()
    for s in statements(body):
        if isinstance(s, For):
            out.add(s.var)
        if isinstance(s, Product):
            out |= {s.i, s.j, *s.k}
    return out


def _windows(v: Var, inner: set[Var], places: Sequence[tuple[Affine, dict[Var, Extent]]]) -> bool:
    """Whether all of `places` lie in such windows. Counters of loops further out are the same in
    all iterations of `v`; they must be in the same way in all places."""
    step, n = places[0][0].coefficient(v), v.extent
    ends: set[Extent] = set()
    starts: set[Extent] = set()
    outer: set[Any] = set()
    for at, own in places:
        if at.coefficient(v) != step or len(_counted(at)) < len(at.terms):
            return False
        mine = [(x, c) for x, c in _counted(at) if x in inner or x in own]
        spans = [_span(c, x.extent, step, n) for x, c in mine]
        reach = at.const
        for span in spans:
            if span is None:
                return False
            reach = span + reach
        starts.add(at.const)
        ends.add(reach)
        outer.add(frozenset([(x, c) for x, c in at.terms if x is not v and (x, c) not in mine]))
    if len(outer) > 1:
        return False
    return all(_is_positive(step - (end - start)) for end in ends for start in starts)


def _counted(at: Affine) -> list[tuple[Var, Extent]]:
    """The terms of an offset that are not from data."""
    return [(x, c) for x, c in at.terms if isinstance(x, Var)]


def _span(c: Extent, count: Extent, step: Extent, n: Extent) -> Extent | None:
    """How far a counter's term reaches within a window; None if that is not known."""
    over = n * step
    if c == over or (isinstance(c, int) and isinstance(over, int) and over > 0 and c % over == 0):
        return 0  # to the same place in a later row of windows
    return c * (count - 1) if _is_positive(c) else None


def _is_positive(n: Extent) -> bool:
    """Whether `n` is more than 0 for all sizes of at least 1."""
    if isinstance(n, int):
        return n > 0
    return all(c > 0 for _, c in n.terms)


# --- how much work -------------------------------------------------------------------------------

_PER_BYTE = 0.05
_PER_MULTIPLICATION = 0.0025
"""Nanoseconds on one core with AVX-512 for each byte of a number that is computed, and in products
of one that is multiplied."""


def nanoseconds(body: Sequence[Stmt]) -> float:
    """About how long one core takes for `body`: only the order of magnitude matters, and that it is
    found quickly. Sizes that are not known are typical ones."""
    return sum([_taken(s) for s in body])


def _taken(s: Stmt) -> float:
    match s:
        case For():
            return typical(s.var.extent) * nanoseconds(s.body)
        case Product():
            depth = typical(product([k.extent for k in s.k]))
            each = depth * s.acc.dtype.itemsize * _PER_MULTIPLICATION + nanoseconds(s.body)
            return typical(s.i.extent) * typical(s.j.extent) * each
        case Gemm():
            count = typical(s.m) * typical(s.n) * typical(s.k)
            return count * s.out.buffer.dtype.itemsize * _PER_MULTIPLICATION
        case Let() | Into():
            return s.local.dtype.itemsize * _PER_BYTE
        case Store():
            return s.buffer.dtype.itemsize * _PER_BYTE
        case Host():
            return 0
