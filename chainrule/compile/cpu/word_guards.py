"""Functions that tell whether words in memory are what they were.

    int64 unchanged(rows, count)            a row: an address, and the word that is to be there
    int64 rows_unchanged(rows, count)       a row: an address, how many words lie there, and those
                                            that are to be there

Rows are looked at in their order: an earlier one may say that the memory of a later one is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.compile.cpu.equal_words import equal_words
from chainrule.compile.cpu.function_writer import PTR, FunctionWriter, int64
from chainrule.compile.llvm.numbers import I64

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


def add_row_guard(module: Any) -> None:
    """Add `rows_unchanged` to a module."""
    s = FunctionWriter(module, OF_ROWS, [PTR, I64])
    (rows, count), b = s.args, s.b
    place = b.alloca(PTR)
    b.store(rows, place)
    with s.count_up(count):
        row = b.load(place, typ=PTR)
        address, length, words = s.load(row, 0, PTR), s.load(row, 1), s.element(row, 2)
        same = b.call(equal_words(module), [address, words, length])
        s.return_if(s.equal(same, 0), 0)
        b.store(s.element(words, length), place)
    s.return_(1)


def add_word_guard(module: Any) -> None:
    """Add `unchanged` to a module."""
    s = FunctionWriter(module, NAME, [PTR, I64])
    (rows, count), b = s.args, s.b
    with s.count_up(count) as i:
        row = s.element(rows, b.mul(i, int64(2)))
        word = b.load(s.load(row, 0, PTR), typ=I64)
        s.return_unless(s.equal(word, s.load(row, 1)), 0)
    s.return_(1)
