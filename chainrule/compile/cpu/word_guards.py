"""Functions that tell whether words in memory are what they were.

    int64 unchanged(rows, count)            a row: an address, and the word that is to be there
    int64 rows_unchanged(rows, count)       a row: an address, how many words lie there, and the
                                            address of those that are to be there

Rows are looked at in their order: an earlier one may say that the memory of a later one is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.equal_words import equal_words
from chainrule.compile.llvm.functions import I64
from chainrule.compile.llvm.serial_loops import count_up

NAME, OF_ROWS = "unchanged", "rows_unchanged"


def joined(rows: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Rows of an address and a word, those of neighbours as one: address and words."""
    out: list[tuple[int, list[int]]] = []
    for address, word in zip(rows[::2], rows[1::2], strict=True):
        if out and out[-1][0] + 8 * len(out[-1][1]) == address:
            out[-1][1].append(word)
        else:
            out.append((address, [word]))
    return out


def add_row_guard(module: Any) -> None:
    """Add `rows_unchanged` to a module."""
    pointer = ir.PointerType()
    f = ir.Function(module, ir.FunctionType(I64, [pointer, I64]), OF_ROWS)
    rows, count = f.args
    b = ir.IRBuilder(f.append_basic_block())
    with count_up(b, count) as i:
        at = b.mul(i, ir.Constant(I64, 3))
        address, length, words = [
            b.load(b.gep(rows, [b.add(at, ir.Constant(I64, n))], source_etype=I64), typ=I64)
            for n in range(3)
        ]
        ends = [b.inttoptr(x, pointer) for x in (address, words)]
        same = b.call(equal_words(module), [*ends, length])
        with b.if_then(b.icmp_unsigned("==", same, ir.Constant(I64, 0)), likely=False):
            b.ret(same)
    b.ret(ir.Constant(I64, 1))


def add_word_guard(module: Any) -> None:
    """Add `unchanged` to a module."""
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
