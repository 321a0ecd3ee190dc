"""Functions that tell whether words in memory are what they were.

    int64 unchanged(rows, count)            a row: an address, and the word that is to be there
    int64 rows_unchanged(rows, count)       a row: an address, how many words lie there, and those
                                            that are to be there

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


def joined(rows: Sequence[int]) -> tuple[int, list[int]]:
    """Of rows of an address and a word, those of neighbours as one: how many these are, and all of
    them, one after the other."""
    out: list[int] = []
    starts: list[int] = []
    end = None
    for address, word in zip(rows[::2], rows[1::2], strict=True):
        if address != end:
            starts.append(len(out))
            out += [address, 0]
        out[starts[-1] + 1] += 1
        out.append(word)
        end = address + 8
    return len(starts), out


def add_row_guard(module: Any) -> Any:
    """Add `rows_unchanged` to a module."""
    pointer = ir.PointerType()
    f = ir.Function(module, ir.FunctionType(I64, [pointer, I64]), OF_ROWS)
    rows, count = f.args
    b = ir.IRBuilder(f.append_basic_block())
    place = b.alloca(pointer)
    b.store(rows, place)
    with count_up(b, count):
        row = b.load(place, typ=pointer)
        after = [b.gep(row, [ir.Constant(I64, n)], source_etype=I64) for n in (1, 2)]
        address, length = b.load(row, typ=pointer), b.load(after[0], typ=I64)
        same = b.call(equal_words(module), [address, after[1], length])
        with b.if_then(b.icmp_unsigned("==", same, ir.Constant(I64, 0)), likely=False):
            b.ret(same)
        b.store(b.gep(after[1], [length], source_etype=I64), place)
    b.ret(ir.Constant(I64, 1))
    return f


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
