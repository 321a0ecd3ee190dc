"""A list of commands that machine code runs: what would be a line of Python each.

    int64 play(rows, count)     the number of the first command that failed, `count` if none did

A row is a command's number and up to seven words: addresses and counts. Between a step's programs
numbers only move, so that this is all that a step needs; see `steady.py`.

    watch     rows, count, groups                                fails if what is guarded changed
    copy      to, from, bytes
    run       entry, objects, scratch, sizes                     fails if it raised
    same      list, items, count                                 fails if they differ
    put       list, items, count, numbers, made                  *made = how many floats are new
    choose    to, places, from, starts, index, chosen, count
              to[places[i]] = from[starts[i] + chosen[index[i]]]
    count     to, chosen, index, count                           to[i] = float(chosen[index[i]])
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, final

import llvmlite.binding as llvm
from llvmlite import ir

from chainrule.compile.cpu.dict_guards import OF_DICTS, add_dict_guard
from chainrule.compile.cpu.function_writer import F64, PTR, VOID, FunctionWriter, int64
from chainrule.compile.cpu.symbols import ERROR
from chainrule.compile.cpu.word_guards import OF_ROWS, add_row_guard
from chainrule.compile.llvm.numbers import I64
from chainrule.compile.runtime.code_placement import placed
from chainrule.compile.runtime.machine_code import compile_object
from chainrule.compile.scalars import slots

WATCH, COPY, RUN, SAME, PUT, CHOOSE, COUNT = range(7)
WORDS = 8


@final
class _Command:
    """A command as it is being written: number `i`, whose words lie at `row`."""

    def __init__(self, s: FunctionWriter, row: Any, i: Any) -> None:
        self.s, self.b, self._row, self._i = s, s.b, row, i

    def words(self, kinds: str) -> list[Any]:
        """The words after a command's number: an address for each `p`, a number for each `i`."""
        words = [self.s.load(self._row, 1 + k) for k in range(len(kinds))]
        return [self.s.pointer(x) if k == "p" else x for x, k in zip(words, kinds, strict=True)]

    def fail_if(self, bit: Any) -> None:
        """End here where the bit is set."""
        self.s.return_if(bit, self._i)

    def need(self, name: str, *args: Any) -> None:
        """Call a function of this module; end here if it gives 0."""
        self.fail_if(self.s.equal(self.s.call(name, I64, *args), 0))


def _watch(c: _Command) -> None:
    rows, count, groups = c.words("pip")
    c.need(OF_ROWS, rows, count)
    c.need(OF_DICTS, groups)


def _copy(c: _Command) -> None:
    to, source, count = c.words("ppi")
    intrinsic = c.s.module.declare_intrinsic("llvm.memcpy", [PTR, PTR, I64])
    c.b.call(intrinsic, [to, source, count, ir.Constant(ir.IntType(1), 0)])


def _run(c: _Command) -> None:
    entry, *rest = c.words("ippp")
    kind = ir.FunctionType(VOID, [PTR] * 5).as_pointer()
    nothing = ir.Constant(PTR, None)
    c.b.call(c.b.inttoptr(entry, kind), [*rest, nothing, nothing])
    c.fail_if(c.b.icmp_unsigned("!=", c.s.call(ERROR, PTR), nothing))


def _same(c: _Command) -> None:
    c.need("same", *c.words("ppi"))


def _put(c: _Command) -> None:
    *args, made = c.words("ppipp")
    c.s.store(c.s.call("put", I64, *args), made, 0)


def _choose(c: _Command) -> None:
    s, (to, places, source, starts, index, chosen, count) = c.s, c.words("ppppppi")
    with s.count_up(count) as i:
        place = c.b.add(s.load(starts, i), s.load(chosen, s.load(index, i)))
        s.store(s.load(source, place), to, s.load(places, i))


def _count(c: _Command) -> None:
    s, (to, chosen, index, count) = c.s, c.words("pppi")
    with s.count_up(count) as i:
        s.store(c.b.sitofp(s.load(chosen, s.load(index, i)), F64), to, i)


def _write_play(s: FunctionWriter) -> None:
    (rows, count), b = s.args, s.b
    with s.count_up(count) as i:
        row = s.element(rows, b.mul(i, int64(WORDS)))
        following = b.append_basic_block("following")
        choice = b.switch(s.load(row, 0), following)
        for number, write in enumerate((_watch, _copy, _run, _same, _put, _choose, _count)):
            block = b.append_basic_block(write.__name__)
            choice.add_case(int64(number), block)
            b.position_at_end(block)
            write(_Command(s, row, i))
            b.branch(following)
        b.position_at_end(following)
    s.return_(count)


@cache
def player() -> Any:
    """The function, or None where lists are not laid out as expected."""
    if slots.code() is None:
        return None
    module = ir.Module("commands")
    module.triple = llvm.get_process_triple()
    slots.add_lists(module)
    add_row_guard(module)
    add_dict_guard(module)
    _write_play(FunctionWriter(module, "play", [PTR, I64]))
    code = placed(compile_object(str(module)))
    play: Any = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(
        code.address("play")
    )
    play.code = code  # as long as it is there
    return play
