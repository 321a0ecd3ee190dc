"""Which kernels are split over cores, and how: a pass over loops.

A loop is parallel where its iterations are independent, and where there is enough work. What is one
long loop over lanes, one large product or one call of BLAS becomes blocks first. What is left over
beyond the last block is a kernel of its own. Neither blocks nor results depend on how many threads
there are.

    for i < 1000000 lanes: y[i] = ...     becomes     for c < 244 parallel:
                                                        for i < 4096 lanes: y[4096*c + i] = ...
                                                      for i < 576 lanes: y[i + 999424] = ...
"""

from __future__ import annotations

from dataclasses import replace

from chainrule.compile.graph.sizes import typical
from chainrule.compile.loops.duration import LEAST, nanoseconds
from chainrule.compile.loops.expressions import Affine, Var
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Into,
    Kernel,
    Let,
    Loops,
    Product,
    Stmt,
    While,
    loop_of,
)
from chainrule.compile.loops.transposed_copy import is_transposed_copy

WORTH = 20_000.0
"""Nanoseconds of work, by an estimate, from which on a kernel is split: some ten times what waking
a thread costs."""
ENOUGH = 64
"""So many iterations are enough: a loop within a parallel loop is not made parallel, too."""
UNIT = 64
"""Blocks are a multiple of this: whole vectors, whole tiles, whole cache lines."""

MOST, NARROW, TILE, CALL = 8, 96, 4, 100_000.0
"""Blocks of a call of BLAS: the most blocks, the fewest rows or columns of one, a number that
divides these, and the fewest nanoseconds of work in one. A call takes some 10 µs."""


def split(program: Loops) -> Loops:
    """The program with parallel loops: a kernel that has one has nothing else."""
    kernels = [p for k in program.kernels for p in _pieces(k)]
    return replace(program, kernels=kernels)


# --- kernels -------------------------------------------------------------------------------------


def _pieces(k: Kernel) -> list[Kernel]:
    """`k`, or in its place one kernel for each parallel loop and for what is between them."""
    if (loop := loop_of(k)) is not None:
        inner = [p for x in loop.kernels for p in _pieces(x)]
        return [Kernel(k.name, (While(loop.going, tuple(inner)),), k.about)]
    if any(isinstance(s, Let | Into) for s in k.body):
        return [k]  # statements share numbers in registers
    out: list[list[Stmt]] = []
    plain = False
    for s in k.body:
        found = _parallelize(s, 1) if nanoseconds([s]) >= WORTH else None
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


def _parallelize(s: Stmt, around: int) -> Split | None:
    """`s` made parallel, where it is run for `around` iterations that are."""
    match s:
        case For() if s.upto is not None:
            return None
        case For() if s.mode == "lanes" or _in_squares(s):
            return _blocks(s, s.var, around)
        case For() if s.mode == "serial":
            return _parallelize_nest(s, around)
        case Product() if s.prefetch is None:
            return _blocks(s, max((s.i, s.j), key=lambda v: typical(v.extent)), around)
        case Gemm():
            return _gemm(s, around)
        case _:
            return None


def _in_squares(s: For) -> bool:
    """Whether it is a transposed copy whose rows are shared out in blocks. Of a size that is not
    known each row is one."""
    return is_transposed_copy(s) and isinstance(s.var.extent, int)


def _parallelize_nest(s: For, around: int) -> Split | None:
    if not s.independent:
        return None
    count = typical(s.var.extent) * around
    inner = _parallelize(s.body[0], count) if len(s.body) == 1 and count < ENOUGH else None
    if inner is not None:
        loop, rest = inner
        left = None if rest is None else replace(s, body=(rest,))
        return replace(s, body=(loop,), mode="parallel"), left
    return None if count < 2 else (replace(s, mode="parallel"), None)


def _blocks(s: For | Product, v: Var, around: int) -> Split | None:
    """`s` in blocks along its counter `v`."""
    n = v.extent
    if not isinstance(n, int) or (isinstance(s, For) and not s.independent):
        return None
    # a transposed copy goes on in squares, whose sides are within a unit
    size = _size(n, around, LEAST / (nanoseconds([s]) / n))
    if size is None:
        return None
    outer = Var(f"{v.name}_b", n // size)
    each = _part(s, v, Affine(0, ((outer, size),)), size)
    loop = For(outer, (each,), "parallel", independent=True)
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
    change = Renaming({v: start + new})
    if isinstance(s, For):
        return For(new, change.body(s.body), s.mode, independent=s.independent)
    i, j = (new if v is x else x for x in (s.i, s.j))
    left, right = change.expr(s.left), change.expr(s.right)
    return Product(i, j, s.k, left, right, s.acc, change.body(s.body))


def _gemm(s: Gemm, around: int) -> Split | None:
    """A product in blocks of rows or columns, eight or fewer: each costs a call, and packs anew."""
    by_rows = typical(s.m) >= typical(s.n)
    n = s.m if by_rows else s.n
    if not isinstance(n, int) or s.upto is not None:
        return None
    count = min(MOST // around, n // NARROW, int(nanoseconds([s]) / CALL))
    if count < 2:
        return None
    even = [n // c for c in range(count, count // 2, -1) if n % (c * TILE) == 0]
    size = even[0] if even else n // count // TILE * TILE
    outer = Var("block", n // size)

    def block_of(start: Affine, m: int) -> Gemm:
        if by_rows:
            return replace(
                s,
                m=m,
                left=s.left.from_element(start, Affine()),
                out=s.out.from_element(start, Affine()),
            )
        return replace(
            s,
            n=m,
            right=s.right.from_element(Affine(), start),
            out=s.out.from_element(Affine(), start),
        )

    left = n % size
    each = block_of(Affine(0, ((outer, size),)), size)
    loop = For(outer, (each,), "parallel", independent=True)
    return loop, block_of(Affine(n - left), left) if left else None
