"""Calls of libraries: products by BLAS, factorizations by LAPACK.

BLAS counts columns first, so it is asked for the transpose, right.T @ left.T, of what lies in rows.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.symbols import lapack
from chainrule.compile.graph.sizes import Extent, Size, typical
from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.kernel import Emitter
from chainrule.compile.llvm.numbers import I1, I8, I64
from chainrule.compile.loops.expressions import Affine
from chainrule.compile.loops.statements import Gemm, Matrix, Routine, Span

_PTR, _I32 = ir.PointerType(), ir.IntType(32)
SYMBOLS = {4: "chainrule_sgemm", 8: "chainrule_dgemm"}
"""BLAS's routine by the size of a number; `runtime.libraries` says where they are."""


CALL = 3e7
"""Nanoseconds of a call, by an estimate, beyond which a product becomes several: none can be ended
while it goes on."""
SIDE = 1024
"""Rows and columns of these, where sizes are not known."""

Block = tuple[Any, Any]
"""Where a block of rows or columns begins, and how many there are."""


def gemm(e: Emitter, s: Gemm) -> None:
    """Emit `s`."""
    m, n, k = [e.affine(x) if isinstance(x, Affine) else e.extent(x) for x in s.sizes]
    zero = ir.Constant(I64, 0)
    sides = _sides(e, s)
    if sides is None:
        _call(e, s, (zero, m), (zero, n), k)
        return
    rows, cols = sides
    whole = max(1.0, typical(s.m) * typical(s.n))
    known = isinstance(s.m, int) and isinstance(s.n, int)
    each = e.takes([s]) * min(1.0, rows * cols / whole) if known else CALL
    across = each * max(1.0, typical(s.n) / cols)
    with e.counting(m, rows, across) as i, e.counting(n, cols, each) as j:
        _call(e, s, (i, _left(e, m, i, rows)), (j, _left(e, n, j, cols)), k)


def _sides(e: Emitter, s: Gemm) -> tuple[int, int] | None:
    """Rows and columns of a block; None where one call is short enough, or nobody asks."""
    if e.polls is None:
        return None
    if not isinstance(s.m, int) or not isinstance(s.n, int):
        return SIDE, SIDE
    rows, cols, takes = s.m, s.n, e.takes([s])
    if takes <= CALL:
        return None
    while takes * rows * cols > CALL * s.m * s.n and max(rows, cols) > SIDE // 2:
        rows, cols = (rows, _half(cols)) if cols >= rows else (_half(rows), cols)
    return rows, cols


def _half(n: int) -> int:
    """Half of `n`, or a little more: whole tiles."""
    return -(-n // 32) * 16


def _left(e: Emitter, end: Any, start: Any, most: int) -> Any:
    """How many there are from `start` on, at most `most`."""
    left = e.b.sub(end, start, flags=("nsw",))
    return nums.intrinsic(e.b, "smin", left, ir.Constant(I64, most))


def _call(e: Emitter, s: Gemm, rows: Block, cols: Block, k: Any) -> None:
    """Call BLAS for some rows and columns of the result."""
    b, dtype = e.b, s.out.buffer.dtype
    name = SYMBOLS[dtype.itemsize]
    f = nums.declare(b, name, ir.VoidType(), [_PTR] * 13)
    one = nums.type_of(dtype)

    def hold(value: Any) -> Any:
        slot = e.slot(value.type)
        b.store(value, slot)
        return slot

    def number(n: Any) -> Any:
        return hold(b.trunc(n, _I32))

    def letter(x: Matrix) -> Any:
        return hold(ir.Constant(I8, ord("N" if x.col == 1 else "T")))

    def lead(x: Matrix) -> Any:
        return number(e.extent(x.row if x.col == 1 else x.col))

    def at(x: Matrix, *starts: tuple[Any, Extent]) -> Any:
        where = e.affine(x.at)
        for start, step in starts:
            if not isinstance(start, ir.Constant):
                where = b.add(where, b.mul(start, e.extent(step)))
        return b.gep(e.pointers[x.buffer], [where], source_etype=nums.in_memory(x.buffer.dtype))

    scale, keep = ir.Constant(one, 1.0), ir.Constant(one, 1.0 if s.add else 0.0)
    (i, m), (j, n) = rows, cols
    b.call(f, [
        letter(s.right), letter(s.left), number(n), number(m), number(k), hold(scale),
        at(s.right, (j, s.right.col)), lead(s.right), at(s.left, (i, s.left.row)), lead(s.left),
        hold(keep), at(s.out, (i, s.out.row), (j, s.out.col)), lead(s.out),
    ])  # fmt: skip


# --- routines of LAPACK, in Fortran's way: everything is passed by its address --------------------
# LAPACK takes no matrix without rows for one: a call with a size that turns out to be 0 is left
# out.


def routine(e: Emitter, s: Routine) -> None:
    """Emit `s`."""
    b = e.b
    f = nums.declare(b, lapack(s.name, s.dtype.itemsize), ir.VoidType(), [_PTR] * len(s.args))

    def pass_argument(x: Any) -> Any:
        match x:
            case Span():
                kind = nums.in_memory(x.buffer.dtype)
                return b.gep(e.pointers[x.buffer], [e.affine(x.at)], source_etype=kind)
            case str():
                value = ir.Constant(I8, ord(x))
            case _:
                value = b.trunc(e.extent(x), _I32)
        slot = e.slot(value.type)
        b.store(value, slot)
        return slot

    unknown = [e.extent(x) for x in s.args if isinstance(x, Size)]
    some = ir.Constant(I1, 1)
    for n in unknown:
        some = b.and_(some, b.icmp_signed(">", n, ir.Constant(I64, 0)))
    with b.if_then(some) if unknown else nullcontext():
        b.call(f, [pass_argument(x) for x in s.args])
