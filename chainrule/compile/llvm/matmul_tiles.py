"""Matrix products small enough to be done in place: tiles of accumulators in registers.

A tile is MR rows by NB vectors of W columns. For each k, NB vectors of the right matrix and MR
numbers of the left one make MR * NB multiply-adds. Rows beyond the last one of a size that is not
known are the last one again: computing and storing it twice does no harm.

Notation: m n k as in (m, k) @ (k, n); MR NB W as above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from llvmlite import ir

from chainrule.compile.graph.sizes import typical
from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm import prefetch
from chainrule.compile.llvm.invariants import indices_constant_along
from chainrule.compile.llvm.kernel import Emitter
from chainrule.compile.llvm.lanes import Lanes, below, first_lanes
from chainrule.compile.llvm.numbers import I64, Value
from chainrule.compile.loops.accesses import accesses
from chainrule.compile.loops.expressions import Expr, Var
from chainrule.compile.loops.statements import Product

ENOUGH = 8
"""Accumulators that keep the multipliers busy: each waits for its sum as long as so many take."""


@final
@dataclass(frozen=True, slots=True)
class Row:
    """The number of a row, and the indices that are read once for it."""

    number: Value
    indices: Sequence[tuple[Expr, Value]] = ()


def product(e: Emitter, s: Product) -> None:
    """Emit `s`: panels of NB vectors, in them tiles of MR rows."""
    n = s.j.extent
    width = e.target.lanes(s.acc.dtype.itemsize)
    while isinstance(n, int) and width // 2 >= n and width > 1:
        width //= 2
    if not isinstance(n, int):
        _columns_of_unknown_number(e, s, width)
        return
    full, rest = divmod(n, width)
    wide = _wide(full + bool(rest))
    many = (full // wide) if full >= wide and full + bool(rest) > wide else 0
    if many:
        columns = wide * width
        with e.counting(ir.Constant(I64, many * columns), columns, _takes(e, s, columns)) as base:
            _panel(e, s, [_lanes(e, s, width, base, v) for v in range(wide)])
    left = list(range(many * wide, full + bool(rest)))
    if left:
        zero = ir.Constant(I64, 0)
        panel = [_lanes(e, s, width, zero, v) for v in left]
        if rest:
            panel[-1].mask = first_lanes(rest, width)
        with e.fresh():
            _panel(e, s, panel)


def _columns_of_unknown_number(e: Emitter, s: Product, width: int) -> None:
    """Full panels, then what is left, in panels half as wide of which some lanes may be masked."""
    b, end = e.b, e.extent(s.j.extent)
    wide = 4 if e.target.registers >= 32 else 2
    columns = wide * width
    whole = b.and_(end, ir.Constant(I64, -columns))
    with e.counting(whole, columns, _takes(e, s, columns)) as base:
        _panel(e, s, [_lanes(e, s, width, base, v) for v in range(wide)])
    few = wide // 2
    left = b.sub(end, whole, flags=("nsw",))
    with e.counting(left, few * width, _takes(e, s, few * width)) as i, e.fresh():
        base = b.add(whole, i, flags=("nsw",))
        panel = [_lanes(e, s, width, base, v) for v in range(few)]
        for v, lanes in enumerate(panel):
            lanes.mask, lanes.is_whole = below(b, end, lanes.base, width), v == 0
        _panel(e, s, panel)


def _takes(e: Emitter, s: Product, columns: int) -> float:
    """About how many nanoseconds so many columns take."""
    return e.takes([s]) * columns / max(1, typical(s.j.extent))


def _wide(vectors: int) -> int:
    """How many vectors a panel has: 4, or fewer where that leaves less over."""
    if vectors <= 4:
        return vectors
    return 3 if vectors % 3 == 0 and vectors % 4 else 4


def _lanes(e: Emitter, s: Product, width: int, base: Value, v: int) -> Lanes:
    return Lanes(s.j, width, e.derived.plus(base, v * width), None)


def _panel(e: Emitter, s: Product, panel: list[Lanes]) -> None:
    """All rows of a panel."""
    m = s.i.extent
    each = _takes(e, s, len(panel) * panel[0].width) / max(1, typical(m))
    budget = 16 if e.target.registers >= 32 else 8
    rows = max(1, min(8, budget // len(panel)))
    if isinstance(m, int):
        rows = min(rows, m)
        if m % rows and m // rows <= 2:  # rather even tiles than a thin last one
            tiles = -(-m // rows)
            rows = -(-m // tiles)
        whole = m - m % rows
        with e.counting(ir.Constant(I64, whole), rows, each * rows) as i:
            _tile(e, s, panel, [e.derived.plus(i, r) for r in range(rows)])
        if m % rows:
            with e.fresh():
                _tile(e, s, panel, [ir.Constant(I64, whole + r) for r in range(m % rows)])
        return
    rows = min(rows, max(4, ENOUGH // len(panel))) if _repeatable(s) else 1
    end = e.extent(m)
    with e.counting(end, rows, each * rows) as i:
        last = e.b.sub(end, ir.Constant(I64, 1))
        at = [i]
        for r in range(1, rows):
            row = e.derived.plus(i, r)
            at.append(e.b.select(e.b.icmp_signed("<", row, last), row, last))
        _tile(e, s, panel, at)


def _repeatable(s: Product) -> bool:
    """Whether doing a row twice is the same as once."""
    found = list(accesses(s.body))
    written = {x.buffer for x in found if x.writes}
    return not any(x.buffer in written for x in found if not x.writes)


def _tile(e: Emitter, s: Product, panel: Sequence[Lanes], rows: Sequence[Value]) -> None:
    """`rows` of a panel: the accumulators in registers, then the body with each."""
    b, dtype = e.b, s.acc.dtype
    zero = nums.constant(0, dtype, panel[0].width)
    slots = [[e.slot(zero.type) for _ in panel] for _ in rows]
    for slot in [x for line in slots for x in line]:
        b.store(zero, slot)
    _sums(e, s, panel, _rows(e, s, [Row(n) for n in rows], s.k), slots)
    for row, line in zip(rows, slots, strict=True):
        for lanes, slot in zip(panel, line, strict=True):
            with e.fresh():
                e.vars[s.i], e.vars[s.j] = row, lanes.base
                e.lanes = lanes
                e.locals[s.acc] = b.load(slot, typ=slot.allocated_type)
                e.run(s.body)
                e.lanes = None


def _rows(e: Emitter, s: Product, rows: Sequence[Row], ks: Sequence[Var]) -> list[Row]:
    """The rows with the indices that are the same for all values of `ks`."""
    found = indices_constant_along(e, s, ks)
    return [replace(row, indices=_indices(e, s, row, found)) for row in rows] if found else [*rows]


def _indices(e: Emitter, s: Product, row: Row, found: Sequence[Expr]) -> list[tuple[Expr, Value]]:
    with e.fresh():
        _begin_row(e, s, row)
        return [*row.indices, *[(x, e.value(x)) for x in found]]


def _begin_row(e: Emitter, s: Product, row: Row) -> None:
    """What comes next is computed for that row."""
    e.vars[s.i] = row.number
    for x, value in row.indices:
        e.known.keep(x, value)


def _sums(
    e: Emitter,
    s: Product,
    panel: Sequence[Lanes],
    rows: Sequence[Row],
    slots: Sequence[Sequence[Any]],
) -> None:
    """All terms; in steps, at whose beginnings memory is asked for, if there is any."""
    steps = prefetch.steps(s, len(rows), len(panel))
    if not steps:
        _along_k(e, s, list(s.k), panel, rows, slots)
        return
    (k,) = s.k
    assert isinstance(k.extent, int)
    each, left = divmod(k.extent, steps)
    size = ir.Constant(I64, each)
    with e.counting(ir.Constant(I64, steps * each), each) as start:
        prefetch.ask(e, s, panel, [row.number for row in rows], (start, each))
        with e.counting(size, 1) as term:
            e.vars[k] = e.b.add(start, term)
            _along_k(e, s, [], panel, rows, slots)
    if left:
        with e.counting(ir.Constant(I64, left), 1) as term:
            e.vars[k] = e.b.add(ir.Constant(I64, steps * each), term)
            _along_k(e, s, [], panel, rows, slots)


def _along_k(
    e: Emitter,
    s: Product,
    ks: list[Var],
    panel: Sequence[Lanes],
    rows: Sequence[Row],
    slots: Sequence[Sequence[Any]],
) -> None:
    """Loops over `ks`; in the innermost one a multiplication for each accumulator of the tile."""
    if ks:
        with e.counting(e.extent(ks[0].extent), 1) as k:
            e.vars[ks[0]] = k
            here = _rows(e, s, rows, ks[1:]) if ks[1:] else rows
            _along_k(e, s, ks[1:], panel, here, slots)
        return
    b = e.b
    right: list[Value] = []
    for lanes in panel:
        with e.fresh():
            e.lanes, e.vars[s.j] = lanes, lanes.base
            right.append(e.derived.splat(e.value(s.right), lanes.width))
            e.lanes = None
    for row, line in zip(rows, slots, strict=True):
        with e.fresh():
            _begin_row(e, s, row)
            left = e.derived.splat(e.value(s.left), panel[0].width)
        for r, slot in zip(right, line, strict=True):
            b.store(multiply_add(e, left, r, b.load(slot, typ=slot.allocated_type)), slot)


def multiply_add(e: Emitter, x: Value, y: Value, z: Value) -> Value:
    """x y + z, rounded once where the processor can."""
    if e.target.fma:
        return nums.intrinsic(e.b, "fma", x, y, z)
    return e.b.fadd(e.b.fmul(x, y), z)
