"""Where numbers are in memory, and how they get from there into lanes and back.

A load or a store along the lanes is one of W neighbours, or goes in a pattern that is known
(`lane_patterns.py`). Any other is a gather or a scatter, number by number. Lanes that do not count
touch nothing.

Notation: W lanes of a vector; `b` the builder.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from chainrule.compile.llvm import functions as fn
from chainrule.compile.llvm import lane_patterns
from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.lanes import Lanes, iota
from chainrule.compile.llvm.numbers import I64, Value
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Var, counter_bits
from chainrule.compile.loops.statements import Store

if TYPE_CHECKING:
    from chainrule.compile.llvm.kernel import Emitter

I32 = ir.IntType(32)

# --- offsets -------------------------------------------------------------------------------------


def affine(e: Emitter, at: Affine) -> Value:
    """An offset, for the first lane where there are several."""
    varying, const = _split(e, at)
    if varying is None:
        return ir.Constant(I64, const)
    return e.derived.plus(varying, const)


def _split(e: Emitter, at: Affine) -> tuple[Value | None, int]:
    """An offset as what differs from place to place, if anything does, and a number. Places whose
    offsets differ only by a number are one address and displacements, which cost nothing."""
    b, const, total = e.b, at.const, None
    for v, c in at.terms:
        x = e.vars[v] if isinstance(v, Var) else _whole(e, v)
        base, shift = e.derived.shift(x)
        if isinstance(base, ir.Constant):
            const += c * base.constant
            continue
        const += c * shift
        part = base if c == 1 else e.derived.times(base, e.extent(c))
        total = (
            part
            if total is None
            else e.known.get_or_make(
                ("add", total, part), lambda x=total, y=part: b.add(x, y, flags=("nsw",))
            )
        )
    if isinstance(const, int):
        return total, const
    size = e.extent(const)
    if total is None:
        return size, 0
    return b.add(total, size, flags=("nsw",)), 0


def offsets(e: Emitter, at: Affine, lanes: Lanes, kind: Any = I64) -> Value:
    """The offset in every lane, as integers of `kind`."""
    b, width = e.b, lanes.width
    varying = [(v, c) for v, c in at.terms if _varies(e, v)]
    plain = affine(e, Affine(at.const, tuple([(v, c) for v, c in at.terms if not _varies(e, v)])))
    total = _lanes_of(e, plain, width, kind)
    for v, c in varying:
        if isinstance(v, Expr):
            bits = lane_patterns.known_bits(e, v, lanes)
            if bits is None:
                each = nums.cast(
                    b, _whole(e, v), np.dtype(np.int64), np.dtype(f"i{kind.width // 8}")
                )
            else:
                numbers = ir.Constant(
                    ir.VectorType(kind, width), [ir.Constant(kind, n) for n in bits[1]]
                )
                each = b.add(_lanes_of(e, bits[0], width, kind), numbers)
        else:
            each = b.add(_lanes_of(e, lanes.base, width, kind), iota(width, kind))
        if c != 1:
            each = b.mul(each, _lanes_of(e, e.extent(c), width, kind))
        nothing = isinstance(plain, ir.Constant) and plain.constant == 0 and len(varying) == 1
        total = each if nothing else b.add(total, each)
    return total


def _lanes_of(e: Emitter, x: Value, width: int, kind: Any) -> Value:
    """The index `x` in every lane, as an integer of `kind`."""
    if kind is I64 or isinstance(x, ir.Constant):
        return e.derived.splat(ir.Constant(kind, x.constant) if kind is not I64 else x, width)
    return e.derived.splat(e.derived.truncated(x, kind), width)


def is_vector(e: Emitter, at: Affine, but: Var | None = None) -> bool:
    """Whether an offset has a part that differs from lane to lane other than `but`."""
    return any(v is not but and _varies(e, v) for v, _ in at.terms)


def _varies(e: Emitter, v: Var | Expr) -> bool:
    if e.lanes is None or isinstance(v, Var):
        return e.lanes is not None and v is e.lanes.var
    if e.lanes.var in v.free and counter_bits(v) is not None:
        return True
    return nums.lanes_of(e.value(v)) > 0


def _whole(e: Emitter, x: Expr) -> Value:
    """An index from data, as an int64."""
    return nums.cast(e.b, e.value(x), x.dtype, np.dtype(np.int64))


def element_address(e: Emitter, buffer: Buffer, at: Affine) -> Value:
    """The address of an element."""
    varying, const = _split(e, at)
    if varying is None:
        return _address(e, buffer, ir.Constant(I64, const))
    kind = nums.in_memory(buffer.dtype)
    base = e.derived.element(e.pointers[buffer], kind, varying)
    if const == 0:
        return base
    number = ir.Constant(I64, const)
    return e.known.get_or_make(
        ("place", base, const), lambda: e.b.gep(base, [number], source_etype=kind)
    )


def _address(e: Emitter, buffer: Buffer, offset: Value) -> Value:
    kind = nums.in_memory(buffer.dtype)
    return e.b.gep(e.pointers[buffer], [offset], source_etype=kind, inbounds=True)


# --- from memory ---------------------------------------------------------------------------------


def load(e: Emitter, x: Expr) -> Value:
    """The value of `x`, a load."""
    b, lanes = e.b, e.lanes
    buffer, at, when = x.of
    held = e.known.stored_value(buffer, at)
    if held is not None and when is None:
        return held
    along = at.coefficient(lanes.var) if lanes is not None else 0
    on = None if when is None else e.value(when)
    indexed = is_vector(e, at, but=lanes.var if lanes else None)
    if lanes is None or (along == 0 and not indexed and not (on and nums.lanes_of(on))):
        return _load_one(e, buffer, at, on)
    mask = None if along == 1 and not indexed and lanes.have_room(buffer) else lanes.mask
    if on is not None:
        on = e.derived.splat(on, lanes.width)
        mask = on if mask is None else b.and_(mask, on)
    if along == 1 and not indexed:
        return _load_vector(b, element_address(e, buffer, at), buffer.dtype, lanes.width, mask)
    if along == 2 and not indexed and lane_patterns.pay(e.target, buffer.dtype):
        place = element_address(e, buffer, at)
        return lane_patterns.load_pairs(b, place, buffer.dtype, lanes.width, mask)
    got = lane_patterns.load_pattern(e, buffer, at, lanes) if indexed and on is None else None
    if got is not None:
        return _from_memory(b, got, buffer.dtype, lanes.width)
    return _gather(e, buffer, offsets(e, at, lanes), lanes.width, mask)


def _load_one(e: Emitter, buffer: Buffer, at: Affine, on: Value | None) -> Value:
    if on is None:
        return _read(e.b, element_address(e, buffer, at), buffer.dtype, 0)
    b = e.b  # read an element that is there in any case, if the wanted one is not
    offset = b.select(on, affine(e, at), ir.Constant(I64, 0))
    got = _read(b, _address(e, buffer, offset), buffer.dtype, 0)
    return b.select(on, got, nums.constant(0, buffer.dtype))


def _load_vector(b: Any, at: Value, dtype: Any, width: int, mask: Value | None) -> Value:
    if mask is None:
        return _read(b, at, dtype, width)
    kind = nums.in_memory(dtype, width)
    zero = ir.Constant(kind, None)
    got = nums.masked_load(b, at, kind, mask, zero, dtype.itemsize)
    return _from_memory(b, got, dtype, width)


def _gather(e: Emitter, buffer: Buffer, at: Value, width: int, mask: Value | None) -> Value:
    """Elements at `width` places that need not be beside each other, read one by one."""
    b, dtype = e.b, buffer.dtype
    kind = nums.in_memory(dtype, width)
    if mask is not None:  # a masked lane reads the first element: that exists
        at = b.select(mask, at, ir.Constant(at.type, None))
    got = ir.Constant(kind, ir.Undefined)
    for lane in range(width):
        which = ir.Constant(I32, lane)
        one = b.load(
            _address(e, buffer, b.extract_element(at, which)),
            typ=nums.in_memory(dtype),
            align=dtype.itemsize,
        )
        got = b.insert_element(got, one, which)
    value = _from_memory(b, got, dtype, width)
    return value if mask is None else b.select(mask, value, nums.constant(0, dtype, width))


def _read(b: Any, at: Value, dtype: Any, width: int) -> Value:
    got = b.load(at, typ=nums.in_memory(dtype, width), align=dtype.itemsize)
    return _from_memory(b, got, dtype, width)


def _from_memory(b: Any, v: Value, dtype: Any, width: int) -> Value:
    if dtype.kind != "b":
        return v
    return b.icmp_unsigned("!=", v, ir.Constant(nums.in_memory(dtype, width), None))


# --- to memory -----------------------------------------------------------------------------------


def store(e: Emitter, s: Store) -> None:
    """Emit the statement `s`."""
    b, value, dtype = e.b, e.value(s.value), s.buffer.dtype
    lanes = e.lanes
    if lanes is None or not (s.add or is_vector(e, s.at)):  # what all lanes add, each adds
        at = element_address(e, s.buffer, s.at)
        if s.add:
            value = fn.call(b, "add", dtype, [_read(b, at, dtype, 0), value])
        b.store(_to_memory(b, value, dtype), at)
    else:
        value = e.derived.splat(value, lanes.width)
        along = 0 if is_vector(e, s.at, but=lanes.var) else s.at.coefficient(lanes.var)
        alone = lanes.mask is None and not s.add
        if along == 1:
            _store_vector(e, s, value, lanes)
        elif along == 2 and alone and lane_patterns.pay(e.target, dtype):
            lane_patterns.store_pairs(b, element_address(e, s.buffer, s.at), value, dtype)
        elif not lane_patterns.store_pattern(e, s, _to_memory(b, value, dtype), lanes):
            _scatter(e, s, value, lanes)
    e.known.stored(s, value)


def _store_vector(e: Emitter, s: Store, value: Value, lanes: Lanes) -> None:
    b, dtype = e.b, s.buffer.dtype
    at = element_address(e, s.buffer, s.at)
    mask = None if lanes.have_room(s.buffer) else lanes.mask
    if s.add:
        old = _load_vector(b, at, dtype, lanes.width, mask)
        value = fn.call(b, "add", dtype, [old, value])
    value = _to_memory(b, value, dtype)
    if mask is None:
        b.store(value, at, align=dtype.itemsize)
        return
    nums.masked_store(b, value, at, mask, dtype.itemsize)


def _scatter(e: Emitter, s: Store, value: Value, lanes: Lanes) -> None:
    """One number after the other: two lanes may go to the same place."""
    b, dtype = e.b, s.buffer.dtype
    offset = offsets(e, s.at, lanes)
    for lane in range(lanes.width):
        which = ir.Constant(I32, lane)
        with _lane_is_on(b, lanes, which):
            at = _address(e, s.buffer, b.extract_element(offset, which))
            one = b.extract_element(value, which)
            if s.add:
                one = fn.call(b, "add", dtype, [_read(b, at, dtype, 0), one])
            b.store(_to_memory(b, one, dtype), at)


@contextmanager
def _lane_is_on(b: Any, lanes: Lanes, which: Value) -> Generator[None]:
    if lanes.mask is None:
        yield
        return
    with b.if_then(b.extract_element(lanes.mask, which)):
        yield


def _to_memory(b: Any, v: Value, dtype: Any) -> Value:
    if dtype.kind != "b":
        return v
    return b.zext(v, nums.in_memory(dtype, nums.lanes_of(v)))
