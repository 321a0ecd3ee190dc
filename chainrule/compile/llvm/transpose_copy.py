"""Transposed copies: squares of 8 by 8 numbers change rows with columns in registers.

Reading along one side and writing along the other, number by number, costs an instruction and more
for each. A square takes 8 loads, 24 shuffles and 8 stores.
"""

from __future__ import annotations

from typing import Any, cast

from llvmlite import ir

from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.kernel import Emitter
from chainrule.compile.llvm.lanes import below, first_lanes
from chainrule.compile.llvm.numbers import I64, Value
from chainrule.compile.loops import statements as loops
from chainrule.compile.loops.expressions import Var
from chainrule.compile.loops.transposed_copy import SIDE, copying_store

_I32 = ir.IntType(32)


def transpose(e: Emitter, s: loops.For) -> None:
    """Emit `s`, which is one."""
    inner: Any = s.body[0]
    store: Any = copying_store(inner.body)
    i, j = cast(Any, s.var), inner.var
    if not isinstance(j.extent, int) and isinstance(i.extent, int) and i.extent % SIDE == 0:
        _whole_rows(e, store, i, j)
        return
    m, n, zero = e.extent(i.extent), e.extent(j.extent), ir.Constant(I64, 0)
    rows, cols, pairs = _whole(e, m, SIDE), _whole(e, n, SIDE), _whole(e, m, 2 * SIDE)
    for start, end, step in ((zero, pairs, 2 * SIDE), (pairs, rows, SIDE)):
        if _is_empty(start, end):
            continue
        with (
            e.counting(_less(e, end, start), step, e.takes([inner]) * step) as a,
            e.counting(cols, SIDE) as b,
            e.counting(ir.Constant(I64, step), SIDE) as c,  # the same lines of memory
        ):
            _square(e, store, (i, _plus(e, e.b.add(a, c), start)), (j, b))
    if not _is_empty(rows, m) or not _last_columns(e, store, (i, m), (j, cols, n)):
        _rest(e, inner.body, (i, zero, m), (j, cols, n))
    _rest(e, inner.body, (i, rows, m), (j, zero, cols))


def _whole(e: Emitter, n: Value, step: int) -> Value:
    """The largest multiple of a power of two that is not above `n`."""
    if isinstance(n, ir.Constant):
        return ir.Constant(I64, n.constant & -step)
    return e.b.and_(n, ir.Constant(I64, -step))


def _is_empty(start: Value, end: Value) -> bool:
    """Whether there is known to be nothing in between."""
    known = isinstance(start, ir.Constant) and isinstance(end, ir.Constant)
    return start is end or (known and start.constant == end.constant)


def _less(e: Emitter, end: Value, start: Value) -> Value:
    if isinstance(start, ir.Constant) and isinstance(end, ir.Constant):
        return ir.Constant(I64, end.constant - start.constant)
    return e.b.sub(end, start, flags=("nsw",))


def _plus(e: Emitter, n: Value, start: Value) -> Value:
    if isinstance(start, ir.Constant):
        return e.derived.plus(n, start.constant)
    return e.b.add(n, start, flags=("nsw",))


def _whole_rows(e: Emitter, s: Any, i: Any, j: Any) -> None:
    """A copy of whole squares along `i`, of which the number of columns is known when it runs: the
    last squares store as many of them as there are."""
    end = e.extent(j.extent)
    last = e.b.sub(end, ir.Constant(I64, 1))
    with (
        e.counting(end, SIDE, e.takes([s]) * SIDE * i.extent) as b,
        e.counting(ir.Constant(I64, i.extent), SIDE) as a,
    ):
        _square(e, s, (i, a), (j, b), last, below(e.b, end, b, SIDE))


def _last_columns(e: Emitter, s: Any, row: tuple[Any, Any], col: tuple[Any, Any, Any]) -> bool:
    """The columns beyond the last whole square, of a known number, in squares that store as many as
    there are; whether that was done."""
    (i, m), (j, start, end) = row, col
    if not (isinstance(m, ir.Constant) and isinstance(end, ir.Constant)) or _is_empty(start, end):
        return False
    last = ir.Constant(I64, end.constant - 1)
    mask = first_lanes(end.constant - start.constant, SIDE)
    with e.counting(m, SIDE, e.takes([s]) * SIDE) as a:
        _square(e, s, (i, a), (j, start), last, mask)
    return True


def _rest(e: Emitter, body: Any, *ranges: tuple[Var, Value, Value]) -> None:
    """What is left at the edges, number by number."""
    if not ranges:
        with e.fresh():
            e.run(body)
        return
    (var, start, end), *others = ranges
    if _is_empty(start, end):
        return
    with e.counting(_less(e, end, start), 1) as n:
        e.vars[var] = _plus(e, n, start)
        _rest(e, body, *others)


def _square(
    e: Emitter,
    s: Any,
    row: tuple[Any, Any],
    col: tuple[Any, Any],
    last: Value | None = None,
    mask: Value | None = None,
) -> None:
    """One square: lines along i become lines along j. If there is a `last` line, it stands for
    those after it, too, and of the others only those in `mask` are stored."""
    b, x = e.b, s.value
    source, at, _ = x.of
    kind = nums.in_memory(x.dtype, SIDE)
    e.vars[row[0]] = row[1]
    lines: list[Any] = []
    for n in range(SIDE):
        e.vars[col[0]] = e.derived.plus(col[1], n)
        if last is not None:
            e.vars[col[0]] = _at_most(b, e.vars[col[0]], last)
        lines.append(b.load(e.element_address(source, at), typ=kind, align=x.dtype.itemsize))
    for step in (1, 2, 4):
        lines = _exchange(b, lines, step)
    e.vars[col[0]] = col[1]
    for n, line in enumerate(lines):
        e.vars[row[0]] = e.derived.plus(row[1], n)
        address = e.element_address(s.buffer, s.at)
        if mask is None:
            b.store(line, address, align=x.dtype.itemsize)
        else:
            nums.masked_store(b, line, address, mask, x.dtype.itemsize)


def _at_most(b: Any, n: Value, last: Value) -> Value:
    if isinstance(n, ir.Constant) and isinstance(last, ir.Constant):
        return min(n, last, key=lambda x: x.constant)
    return nums.intrinsic(b, "smin", n, last)


def _exchange(b: Any, lines: list[Any], step: int) -> list[Any]:
    """Squares of side `step` off the diagonal change places within squares of twice that side."""
    out = list(lines)
    low = [c if c & step == 0 else SIDE + c - step for c in range(SIDE)]
    high = [c + step if c & step == 0 else SIDE + c for c in range(SIDE)]
    for n in range(SIDE):
        if n & step == 0:
            x, y = lines[n], lines[n + step]
            out[n] = b.shuffle_vector(x, y, _mask(low))
            out[n + step] = b.shuffle_vector(x, y, _mask(high))
    return out


def _mask(lanes: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_I32, SIDE), lanes)
