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

from chainrule.compile.cpu.dict_guards import LOOKUP, OF_DICTS, add_dict_guard
from chainrule.compile.cpu.word_guards import OF_ROWS, add_row_guard
from chainrule.compile.llvm.host_target import target
from chainrule.compile.llvm.serial_loops import count_up
from chainrule.compile.runtime.machine_code import compile_object
from chainrule.compile.scalars import slots

WATCH, COPY, RUN, SAME, PUT, CHOOSE, COUNT = range(7)
WORDS = 8
_I64, _F64, _PTR = ir.IntType(64), ir.DoubleType(), ir.PointerType()
_ERROR = "PyErr_Occurred"


@final
class _Player:
    """The function as it is being written; `end` is the block to which a command that failed
    goes."""

    def __init__(self, module: Any) -> None:
        self.module = module
        f = ir.Function(module, ir.FunctionType(_I64, [_PTR, _I64]), "play")
        self.f = f
        rows, count = f.args
        b = self.b = ir.IRBuilder(f.append_basic_block())
        with count_up(b, count) as i:
            self.i = i
            self.row = b.gep(rows, [b.mul(i, ir.Constant(_I64, WORDS))], source_etype=_I64)
            following = f.append_basic_block("following")
            choice = b.switch(self._word(0), following)
            for number, write in enumerate((_watch, _copy, _run, _same, _put, _choose, _count)):
                block = f.append_basic_block(write.__name__)
                choice.add_case(ir.Constant(_I64, number), block)
                b.position_at_end(block)
                write(self)
                b.branch(following)
            b.position_at_end(following)
        b.ret(count)

    def _word(self, n: int) -> Any:
        at = self.b.gep(self.row, [ir.Constant(_I64, n)], source_etype=_I64)
        return self.b.load(at, typ=_I64)

    def words(self, n: int) -> list[Any]:
        """The words after a command's number."""
        return [self._word(1 + k) for k in range(n)]

    def pointer(self, word: Any) -> Any:
        """A word as an address."""
        return self.b.inttoptr(word, _PTR)

    def element(self, array: Any, i: Any, kind: Any = _I64) -> Any:
        """The address of an element."""
        return self.b.gep(self.pointer(array), [i], source_etype=kind)

    def at(self, array: Any, i: Any) -> Any:
        """A word of an array."""
        return self.b.load(self.element(array, i), typ=_I64)

    def fail_if(self, bit: Any) -> None:
        """End here where the bit is set."""
        with self.b.if_then(bit, likely=False):
            self.b.ret(self.i)

    def function(self, name: str, kind: Any, arguments: list[Any]) -> Any:
        """A function of this module or elsewhere."""
        known = self.module.globals.get(name)
        return known or ir.Function(self.module, ir.FunctionType(kind, arguments), name)


def _watch(s: _Player) -> None:
    rows, count, groups = s.words(3)
    f = s.module.globals[OF_ROWS]
    found = s.b.call(f, [s.pointer(rows), count])
    s.fail_if(s.b.icmp_unsigned("==", found, ir.Constant(_I64, 0)))
    found = s.b.call(s.module.globals[OF_DICTS], [s.pointer(groups)])
    s.fail_if(s.b.icmp_unsigned("==", found, ir.Constant(_I64, 0)))


def _copy(s: _Player) -> None:
    to, source, count = s.words(3)
    intrinsic = s.module.declare_intrinsic("llvm.memcpy", [_PTR, _PTR, _I64])
    no = ir.Constant(ir.IntType(1), 0)
    s.b.call(intrinsic, [s.pointer(to), s.pointer(source), count, no])


def _run(s: _Player) -> None:
    entry, *rest = s.words(4)
    kind = ir.FunctionType(ir.VoidType(), [_PTR] * 5).as_pointer()
    nothing = ir.Constant(_PTR, None)
    s.b.call(s.b.inttoptr(entry, kind), [*map(s.pointer, rest), nothing, nothing])
    raised = s.b.call(s.function(_ERROR, _PTR, []), [])
    s.fail_if(s.b.icmp_unsigned("!=", raised, nothing))


def _same(s: _Player) -> None:
    thing, items, count = s.words(3)
    f = s.function("same", _I64, [_PTR, _PTR, _I64])
    found = s.b.call(f, [s.pointer(thing), s.pointer(items), count])
    s.fail_if(s.b.icmp_unsigned("==", found, ir.Constant(_I64, 0)))


def _put(s: _Player) -> None:
    thing, items, count, numbers, made = s.words(5)
    f = s.function("put", _I64, [_PTR, _PTR, _I64, _PTR])
    args = [s.pointer(thing), s.pointer(items), count, s.pointer(numbers)]
    s.b.store(s.b.call(f, args), s.pointer(made))


def _choose(s: _Player) -> None:
    to, places, source, starts, index, chosen, count = s.words(7)
    with count_up(s.b, count) as i:
        place = s.b.add(s.at(starts, i), s.at(chosen, s.at(index, i)))
        s.b.store(s.at(source, place), s.element(to, s.at(places, i)))


def _count(s: _Player) -> None:
    to, chosen, index, count = s.words(4)
    with count_up(s.b, count) as i:
        x = s.b.sitofp(s.at(chosen, s.at(index, i)), _F64)
        s.b.store(x, s.element(to, i, _F64))


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
    _Player(module)
    slots.link(_ERROR, LOOKUP)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(compile_object(str(module))))
    engine.finalize_object()
    play = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    function: Any = play(engine.get_function_address("play"))
    function.engine = engine
    return function
