"""A function that tells whether words in memory are what they were: `unchanged(rows, count)`.

Each row is an address and the word that is to be there.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.llvm.functions import I64

NAME = "unchanged"


def add_word_guard(module: Any) -> None:
    """Add the function to a module."""
    pointer = ir.PointerType()
    f = ir.Function(module, ir.FunctionType(I64, [pointer, I64]), NAME)
    rows, count = f.args
    entry, loop, on, yes, no = [
        f.append_basic_block(n) for n in ("entry", "row", "on", "yes", "no")
    ]
    b = ir.IRBuilder(entry)
    zero, one, two = (ir.Constant(I64, n) for n in (0, 1, 2))
    b.cbranch(b.icmp_signed("==", count, zero), yes, loop)
    b.position_at_end(loop)
    i = b.phi(I64)
    i.add_incoming(zero, entry)
    at = b.gep(rows, [b.mul(i, two)], source_etype=I64)
    want = b.load(b.gep(at, [one], source_etype=I64), typ=I64)
    word = b.load(b.inttoptr(b.load(at, typ=I64), pointer), typ=I64)
    b.cbranch(b.icmp_signed("==", word, want), on, no)
    b.position_at_end(on)
    following = b.add(i, one)
    i.add_incoming(following, on)
    b.cbranch(b.icmp_signed("<", following, count), loop, yes)
    for block, answer in ((yes, one), (no, zero)):
        b.position_at_end(block)
        b.ret(answer)
