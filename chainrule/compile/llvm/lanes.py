"""Loops over lanes: W iterations at a time, and accumulators that are vectors.

What remains beyond the last full vector is masked off. In a long loop a vector is as long as
several registers where one instruction would wait for the one before it: LLVM writes instructions
that do not depend on each other next to each other, and a fold has several accumulators.

Notation: W lanes of a vector; `b` the builder.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from llvmlite import ir

from chainrule.compile.graph.sizes import Extent, typical
from chainrule.compile.llvm import functions as fn
from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm import serial_loops
from chainrule.compile.llvm.numbers import I1, I64, Value
from chainrule.compile.loops.expressions import ROOM, Affine, Buffer, Local, Var, within
from chainrule.compile.loops.functions import identity
from chainrule.compile.loops.statements import (
    Fold,
    For,
    Into,
    Let,
    Stmt,
    Store,
    exprs_of,
    statements,
)
from chainrule.compile.target import Target

if TYPE_CHECKING:
    from chainrule.compile.llvm.kernel import Emitter


HEAVY = 40
"""Expressions of a body that take longer than an addition waits for the one before it."""
LONG = 8
"""A loop of so many vectors, typically, is long: what is left of the last one hardly counts."""
SIDE_BY_SIDE = 4
"""Accumulators of a short body: an addition waits as long as four take."""
REGISTERS = 8
"""A function of mathematics has so many numbers at a time, half of them its coefficients."""


@final
@dataclass(slots=True)
class Lanes:
    """The vector that is computed: `var` is `base`, base + 1, ...; `mask` says which count.
    `is_whole`: the loop goes to the counter's extent, and the first of them counts."""

    var: Var
    width: int
    base: Value
    mask: Value | None
    is_whole: bool = True

    def have_room(self, buffer: Buffer) -> bool:
        """Whether lanes that do not count may be read and written there with the others."""
        return buffer.run == self.var.extent and self.is_whole and self.width <= ROOM


def over_lanes(e: Emitter, s: For) -> None:
    """Emit the loop `s`."""
    n = s.var.extent
    width = width_of(e.target, s.body, n)
    width *= _registers_at_once(e, s, width)
    with folding(e, s.body, width):
        if s.upto is not None or not _is_long(n, width):
            _dynamic(e, s, width)
        elif isinstance(n, int):
            _strip(e, s, width, n // width)
            if n % width:
                with e.known.within():
                    base = ir.Constant(I64, n - n % width)
                    vector(e, s.body, Lanes(s.var, width, base, first_lanes(n % width, width)))
        else:
            _long(e, s, width)


def _is_long(n: Extent, width: int) -> bool:
    """Whether most iterations of a loop to n are in full vectors."""
    return isinstance(n, int) or typical(n) >= LONG * width


def _registers_at_once(e: Emitter, s: For, width: int) -> int:
    """How many registers a vector of the loop `s` is long."""
    many = 1
    if serial_loops.expressions(s.body) < HEAVY:
        many = SIDE_BY_SIDE if _folds(e, s.body) else 1
    elif _adds_up_columns(s.body):
        many = SIDE_BY_SIDE
    elif serial_loops.has_mathematics(s.body):
        many = max(1, e.target.registers // REGISTERS)
    while many > 1 and not _has_many(s, many * width):
        many //= 2
    return many


def _has_many(s: For, width: int) -> bool:
    """Whether the loop is long for vectors of that width, or consists of them."""
    n = s.var.extent
    if s.upto is not None and not _divides(s.upto, width):
        return False
    return typical(n) >= LONG * width or (isinstance(n, int) and n % width == 0)


def _adds_up_columns(body: Sequence[Stmt]) -> bool:
    """Whether each lane is a column of which a short loop makes a sum: it reads from another row,
    often from another page, in each of its steps, so that it had better take much from there."""
    loops = [x for x in body if isinstance(x, For)]
    return any(
        any(isinstance(x, Into) for x in loop.body) and serial_loops.expressions(loop.body) < HEAVY
        for loop in loops
    )


@contextmanager
def folding(e: Emitter, body: Sequence[Stmt], width: int) -> Generator[None]:
    """Within it, the locals from outside that `body` folds into are vectors."""
    folds = _folds(e, body)
    for local, fold in folds.items():
        e.vectors[local] = _start_fold(e, local, fold, width)
    yield
    for local, fold in folds.items():
        _finish(e, local, fold)


def _folds(e: Emitter, body: Sequence[Stmt]) -> dict[Local, Fold]:
    """The locals from outside that `body` folds into, and how."""
    inner = list(statements(body))
    begun = {x.local for x in inner if isinstance(x, Let)}
    found: dict[Local, Fold] = {x.local: x.fold for x in inner if isinstance(x, Into)}
    return {x: fold for x, fold in found.items() if x in e.locals and x not in begun}


def _dynamic(e: Emitter, s: For, width: int) -> None:
    """A loop whose end is known when it runs."""
    end = e.end(s)
    plain = s.upto is not None and _divides(s.upto, width)
    with e.counting(end, width, e.takes(s.body) * width) as i, e.known.within():
        mask = None if plain else below(e.b, end, i, width)
        vector(e, s.body, Lanes(s.var, width, i, mask, s.upto is None))


def _long(e: Emitter, s: For, width: int) -> None:
    """A loop whose end is known when it runs, and mostly far: full vectors, then what is left."""
    b, end = e.b, e.end(s)
    whole = b.and_(end, ir.Constant(I64, -width))
    with e.counting(whole, width, e.takes(s.body) * width) as i, e.known.within():
        vector(e, s.body, Lanes(s.var, width, i, None))
    with e.counting(b.sub(end, whole, flags=("nsw",)), width) as i:
        base = b.add(whole, i, flags=("nsw",))
        mask = below(b, end, base, width)
        with e.known.within():
            vector(e, s.body, Lanes(s.var, width, base, mask))


def _divides(at: Affine, by: int) -> bool:
    """Whether an offset is always a multiple of `by`."""
    return all(isinstance(c, int) and c % by == 0 for c in (at.const, *[c for _, c in at.terms]))


def _strip(e: Emitter, s: For, width: int, count: int) -> None:
    """`count` full vectors."""
    if not count:
        return
    n = ir.Constant(I64, count * width)
    for i in serial_loops.iterations(e, n, width, s.body, e.takes(s.body) * width):
        with e.known.within():
            vector(e, s.body, Lanes(s.var, width, i, None))


def vector(e: Emitter, body: Sequence[Stmt], lanes: Lanes) -> None:
    """The body of a loop for one vector."""
    assert e.lanes is None, "lanes within lanes"
    e.lanes = lanes
    e.vars[lanes.var] = lanes.base
    e.run(body)
    e.lanes = None


def _start_fold(e: Emitter, local: Local, fold: Fold, width: int) -> Value:
    start = nums.constant(identity(fold, local.dtype), local.dtype, width)
    slot = e.slot(start.type)
    e.b.store(start, slot)
    return slot


def _finish(e: Emitter, local: Local, fold: Fold) -> None:
    """Fold the lanes of its accumulator into the local."""
    b, dtype = e.b, local.dtype
    vectors = e.vectors.pop(local)
    one = _across(b, b.load(vectors, typ=vectors.allocated_type), fold, dtype)
    slot = e.locals[local]
    if e.begun.get(local) != identity(fold, dtype):
        one = fn.call(b, fold, dtype, [b.load(slot, typ=slot.allocated_type), one])
    b.store(one, slot)
    e.begun.pop(local, None)
    e.known.invalidate_local(local)


def _across(b: Any, v: Value, fold: Fold, dtype: Any) -> Value:
    """All lanes folded into one number, halves with halves: the same order in every run."""
    width, i32, whole = nums.lanes_of(v), ir.IntType(32), v
    plain = dtype.kind == "f" and fold in ("maximum", "minimum")
    while width > 1:
        width //= 2
        low, high = (
            ir.Constant(ir.VectorType(i32, width), list(range(a, a + width))) for a in (0, width)
        )
        nothing = nums.anything(v.type)
        x, y = b.shuffle_vector(v, nothing, low), b.shuffle_vector(v, nothing, high)
        if plain:  # NaN is looked for at the end
            v = b.select(b.fcmp_ordered(">" if fold == "maximum" else "<", x, y), x, y)
        else:
            v = fn.call(b, fold, dtype, [x, y])
    if plain:
        odd = b.bitcast(b.fcmp_unordered("uno", whole, whole), ir.IntType(nums.lanes_of(whole)))
        some = b.icmp_unsigned("!=", odd, ir.Constant(odd.type, 0))
        one = b.extract_element(v, ir.Constant(i32, 0))
        return b.select(some, nums.constant(float("nan"), dtype), one)
    return b.extract_element(v, ir.Constant(i32, 0))


def width_of(target: Target, body: Sequence[Stmt], n: Extent) -> int:
    """How many lanes suit the numbers that `body` computes with, and a loop to `n`."""
    width = widest(target, body, n)
    if not isinstance(n, int) and width > 4 and typical(n) < LONG * width:
        width //= 2  # such loops are often short: half a vector wastes less of the last one
    return width


def widest(target: Target, body: Sequence[Stmt], n: Extent) -> int:
    """The same where nothing is wasted: what a register has, or less if `n` needs no more."""
    floats, others = {0}, {1}
    for s in statements(body):
        for e in exprs_of(s):
            others.add(e.dtype.itemsize)
            for x in within(e):
                if x.dtype.kind == "f":
                    floats.add(x.dtype.itemsize)
                elif x.kind == "load":
                    others.add(x.dtype.itemsize)
        if isinstance(s, Store):
            others.add(s.buffer.dtype.itemsize)
    width = target.lanes(max(floats) or max(others))
    while isinstance(n, int) and width // 2 >= n and width > 1:
        width //= 2
    return width


def first_lanes(n: int, width: int) -> Value:
    """The mask of the first `n` lanes."""
    return ir.Constant(ir.VectorType(I1, width), [ir.Constant(I1, i < n) for i in range(width)])


def below(b: Any, end: Value, base: Value, width: int) -> Value:
    """The mask of those lanes whose counter is below `end`."""
    left = b.trunc(b.sub(end, base), ir.IntType(32))
    return b.icmp_signed("<", iota(width, ir.IntType(32)), nums.splat(b, left, width))


def iota(width: int, kind: Any) -> Value:
    """0, 1, ... in the lanes."""
    return ir.Constant(ir.VectorType(kind, width), [ir.Constant(kind, i) for i in range(width)])
