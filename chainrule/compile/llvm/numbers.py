"""Numbers in LLVM's words: their types, constants, vectors of them, conversions.

A number is a single one or a vector of lanes; a truth value is a bit in a register and a byte in
memory. A bfloat16 is the integer of its bits, the upper half of those of a float32.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

Value = Any
Builder = Any
I1, I8, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(64)
_ZERO = ir.Constant(ir.IntType(32), 0)
_F32, _U16, _U32 = np.dtype(np.float32), np.dtype(np.uint16), np.dtype(np.uint32)
_FLOATS: dict[str, Any] = {"e": ir.HalfType(), "f": ir.FloatType(), "d": ir.DoubleType()}


def type_of(dtype: Any, lanes: int = 0) -> Any:
    """LLVM's type of a number of `dtype` in a register; of so many if `lanes`."""
    kind = dtype.kind
    if kind == "f":
        one = _FLOATS[dtype.char] if dtype.char in _FLOATS else _FLOATS["d"]
    else:
        one = I1 if kind == "b" else ir.IntType(8 * dtype.itemsize)
    return ir.VectorType(one, lanes) if lanes else one


def in_memory(dtype: Any, lanes: int = 0) -> Any:
    """LLVM's type of it in memory, where a bool is a byte."""
    if dtype.kind != "b":
        return type_of(dtype, lanes)
    return ir.VectorType(I8, lanes) if lanes else I8


def lanes_of(v: Value) -> int:
    """How many numbers `v` is, 0 if it is a single one."""
    return v.type.count if isinstance(v.type, ir.VectorType) else 0


def constant(value: Any, dtype: Any, lanes: int = 0) -> Value:
    """The number `value`."""
    one = type_of(dtype)
    if dtype.kind == "b":
        value = int(bool(value))
    if dtype.kind == "V":
        value = np.asarray(value, dtype).view(np.uint16)
    c = ir.Constant(one, float(value) if dtype.kind == "f" else int(value))
    return same(c, lanes) if lanes else c


# A vector is spelled out lane by lane: one object for equal ones is spelled once.
@cache
def same(c: Value, lanes: int) -> Value:
    """The constant `c` in every lane."""
    return ir.Constant(ir.VectorType(c.type, lanes), [c] * lanes)


@cache
def anything(kind: Any) -> Value:
    """A value of the type `kind` of which nothing is read."""
    return ir.Constant(kind, ir.Undefined)


def splat(b: Builder, v: Value, lanes: int) -> Value:
    """`v` in every lane."""
    if lanes_of(v) or not lanes:
        return v
    if isinstance(v, ir.Constant):
        return same(v, lanes)
    vector = ir.VectorType(v.type, lanes)
    first = b.insert_element(anything(vector), v, _ZERO)
    return b.shuffle_vector(first, anything(vector), same(_ZERO, lanes))


def intrinsic(b: Builder, name: str, *args: Value, fastmath: tuple[str, ...] = ()) -> Value:
    """Call LLVM's own function `name`, whose type is that of its first argument."""
    t = args[0].type
    f = declare(b, f"llvm.{name}.{suffix(t)}", t, [a.type for a in args])
    return b.call(f, args, fastmath=fastmath)


def declare(b: Builder, name: str, result: Any, args: list[Any]) -> Any:
    """The external function `name` of this module."""
    module = b.module
    if name in module.globals:
        return module.globals[name]
    return ir.Function(module, ir.FunctionType(result, args), name)


def masked_load(b: Builder, at: Value, kind: Any, mask: Value, off: Value, align: int) -> Value:
    """The vector at an address, with the lanes of `off` where the mask has none."""
    args = [at, ir.Constant(ir.IntType(32), align), mask, off]
    f = declare(b, f"llvm.masked.load.{suffix(kind)}.p0", kind, [x.type for x in args])
    return b.call(f, args)


def masked_store(b: Builder, value: Value, at: Value, mask: Value, align: int) -> None:
    """Store those lanes of a vector that the mask has."""
    args = [value, at, ir.Constant(ir.IntType(32), align), mask]
    name = f"llvm.masked.store.{suffix(value.type)}.p0"
    b.call(declare(b, name, ir.VoidType(), [x.type for x in args]), args)


def suffix(t: Any) -> str:
    """How LLVM writes a type in a function's name."""
    if isinstance(t, ir.VectorType):
        return f"v{t.count}{suffix(t.element)}"
    if isinstance(t, ir.PointerType):
        return "p0"
    if isinstance(t, ir.IntType):
        return f"i{t.width}"
    return {"half": "f16", "float": "f32", "double": "f64"}[str(t)]


def truth(b: Builder, d: Any, x: Value) -> Value:
    """Whether `x` is not 0; NaN is not."""
    if d.kind == "b":
        return x
    zero = constant(0, d, lanes_of(x))
    return b.fcmp_unordered("!=", x, zero) if d.kind == "f" else b.icmp_signed("!=", x, zero)


def cast(b: Builder, v: Value, old: Any, new: Any) -> Value:
    """`v` converted as NumPy's `astype` does."""
    if old == new:
        return v
    if old.kind == "V":
        return cast(b, _from_bfloat16(b, v), _F32, new)
    if new.kind == "V":
        return _to_bfloat16(b, cast(b, v, old, _F32))
    to = type_of(new, lanes_of(v))
    if new.kind == "b":
        return truth(b, old, v)
    if old.char == "d" and new.char == "e":
        v, old = _to_odd(b, v), _F32
    if old.kind == "f" and new.kind == "f":
        return b.fptrunc(v, to) if old.itemsize > new.itemsize else b.fpext(v, to)
    if old.kind == "f":
        return b.fptosi(v, to) if new.kind == "i" else b.fptoui(v, to)
    if new.kind == "f":
        return b.sitofp(v, to) if old.kind == "i" else b.uitofp(v, to)
    if old.kind == "b" or (new.itemsize > old.itemsize and old.kind == "u"):
        return b.zext(v, to)
    if new.itemsize > old.itemsize:
        return b.sext(v, to)
    return b.trunc(v, to) if new.itemsize < old.itemsize else v


def _to_odd(b: Builder, v: Value) -> Value:
    """The float64 `v` as a float32 whose last bit says whether anything was cut off.

    Rounded to float16 it gives what `v` does: processors have no such step, and LLVM calls a
    function for it that is not there.
    """
    lanes = lanes_of(v)
    near = b.fptrunc(v, type_of(_F32, lanes))
    back = b.fpext(near, v.type)
    bits = b.bitcast(near, _words(lanes))
    beyond = b.fcmp_ordered(">", intrinsic(b, "fabs", back), intrinsic(b, "fabs", v))
    cut = b.select(beyond, b.sub(bits, constant(1, _U32, lanes)), bits)
    odd = b.or_(cut, constant(1, _U32, lanes))
    found = b.select(b.fcmp_ordered("!=", back, v), odd, bits)
    return b.bitcast(found, near.type)


def _from_bfloat16(b: Builder, v: Value) -> Value:
    """The bfloat16 `v` as a float32."""
    lanes = lanes_of(v)
    bits = b.shl(b.zext(v, _words(lanes)), constant(16, _U32, lanes))
    return b.bitcast(bits, type_of(_F32, lanes))


def _to_bfloat16(b: Builder, v: Value) -> Value:
    """The bfloat16 that is nearest to the float32 `v`, of two the even one; NaN stays NaN."""
    lanes = lanes_of(v)

    def number(n: int) -> Value:
        return constant(n, _U32, lanes)

    bits = b.bitcast(v, _words(lanes))
    upper = b.lshr(bits, number(16))
    odd = b.and_(upper, number(1))
    nearest = b.lshr(b.add(bits, b.add(odd, number(0x7FFF))), number(16))
    quiet = b.or_(upper, number(0x40))
    found = b.select(b.fcmp_unordered("uno", v, v), quiet, nearest)
    return b.trunc(found, type_of(_U16, lanes))


def _words(lanes: int) -> Any:
    return type_of(_U32, lanes)
