"""A function that tells whether two rows of words are equal: `equal(a, b, count)`, an int64.

It compares vectors without a branch in between: rows are mostly equal, and then all is looked at.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.llvm.functions import I64
from chainrule.compile.llvm.serial_loops import count_up

NAME = "equal"
_LANES = 8
_VECTOR = ir.VectorType(I64, _LANES)


def equal_words(module: Any) -> Any:
    """The function of a module, added to it by the first call."""
    if NAME in module.globals:
        return module.globals[NAME]
    pointer = ir.PointerType()
    f = ir.Function(module, ir.FunctionType(I64, [pointer, pointer, I64]), NAME)
    f.linkage = "internal"
    one, other, count = f.args
    b = ir.IRBuilder(f.append_basic_block())
    vectors, bits = b.alloca(_VECTOR), b.alloca(I64)
    b.store(ir.Constant(_VECTOR, [0] * _LANES), vectors)
    b.store(ir.Constant(I64, 0), bits)
    lanes = ir.Constant(I64, _LANES)

    def note(i: Any, kind: Any, found: Any) -> None:
        x, y = (
            b.load(b.gep(a, [i], source_etype=I64), typ=kind, align=I64.width // 8)
            for a in (one, other)
        )
        b.store(b.or_(b.load(found, typ=kind), b.xor(x, y)), found)

    whole = b.udiv(count, lanes)
    with count_up(b, whole) as k:
        note(b.mul(k, lanes), _VECTOR, vectors)
    start = b.mul(whole, lanes)
    with count_up(b, b.sub(count, start)) as k:
        note(b.add(start, k), I64, bits)
    kind = ir.FunctionType(I64, [_VECTOR])
    reduce = ir.Function(module, kind, f"llvm.vector.reduce.or.v{_LANES}i64")
    found = b.or_(b.call(reduce, [b.load(vectors, typ=_VECTOR)]), b.load(bits, typ=I64))
    b.ret(b.zext(b.icmp_unsigned("==", found, ir.Constant(I64, 0)), I64))
    return f
