"""A function that tells whether two rows of words are equal: `equal(a, b, count)`, an int64.

It compares several words without a branch, so that LLVM makes vectors of them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.llvm.functions import I64
from chainrule.compile.llvm.serial_loops import count_up

NAME = "equal"
_BLOCK = 16


def equal_words(module: Any) -> Any:
    """The function of a module, added to it by the first call."""
    if NAME in module.globals:
        return module.globals[NAME]
    pointer = ir.PointerType()
    f = ir.Function(module, ir.FunctionType(I64, [pointer, pointer, I64]), NAME)
    f.linkage = "internal"
    one, other, count = f.args
    b = ir.IRBuilder(f.append_basic_block())
    zero, block = ir.Constant(I64, 0), ir.Constant(I64, _BLOCK)

    def difference(i: Any) -> Any:
        return b.xor(*[b.load(b.gep(a, [i], source_etype=I64), typ=I64) for a in (one, other)])

    def end_if_any(bits: Any) -> None:
        with b.if_then(b.icmp_unsigned("!=", bits, zero), likely=False):
            b.ret(zero)

    blocks = b.udiv(count, block)
    with count_up(b, blocks) as k:
        start = b.mul(k, block)
        found = difference(start)
        for n in range(1, _BLOCK):
            found = b.or_(found, difference(b.add(start, ir.Constant(I64, n))))
        end_if_any(found)
    start = b.mul(blocks, block)
    with count_up(b, b.sub(count, start)) as k:
        end_if_any(difference(b.add(start, k)))
    b.ret(ir.Constant(I64, 1))
    return f
