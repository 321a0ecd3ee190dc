"""A function of machine code that is no kernel, as it is being written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, final

from llvmlite import ir

from chainrule.compile.cpu.object_layout import KEYS
from chainrule.compile.cpu.symbols import CALL, CLEAR, CONTEXT, LOOKUP
from chainrule.compile.llvm.numbers import I8, I64, declare
from chainrule.compile.llvm.serial_loops import count_up

PTR, VOID, F64, I32 = ir.PointerType(), ir.VoidType(), ir.DoubleType(), ir.IntType(32)


def int64(n: int) -> Any:
    """A constant of 64 bits."""
    return ir.Constant(I64, n)


def _value(x: Any) -> Any:
    return int64(x) if isinstance(x, int) else x


@final
class FunctionWriter:
    """Writes `result name(kinds)` into a module. Where a number is wanted an int will do, too."""

    def __init__(self, module: Any, name: str, kinds: Sequence[Any], result: Any = I64) -> None:
        self.module = module
        self.f = ir.Function(module, ir.FunctionType(result, kinds), name)
        self.args = self.f.args
        self.b = ir.IRBuilder(self.f.append_basic_block())

    def element(self, array: Any, i: Any, kind: Any = I64) -> Any:
        """The address of element `i`."""
        return self.b.gep(array, [_value(i)], source_etype=kind)

    def load(self, array: Any, i: Any, kind: Any = I64) -> Any:
        """Element `i`."""
        return self.b.load(self.element(array, i, kind), typ=kind)

    def store(self, x: Any, array: Any, i: Any) -> None:
        """Let element `i` be `x`."""
        x = _value(x)
        self.b.store(x, self.element(array, i, x.type))

    def place(self, thing: Any, at: Any) -> Any:
        """The address `at` bytes from the start of an object."""
        return self.element(thing, at, I8)

    def field(self, thing: Any, at: Any, kind: Any = PTR) -> Any:
        """What an object holds there."""
        return self.b.load(self.place(thing, at), typ=kind)

    def pointer(self, word: Any) -> Any:
        """A word as an address."""
        return self.b.inttoptr(word, PTR)

    def equal(self, x: Any, y: Any) -> Any:
        """Whether two words, or addresses, are equal."""
        words = [self.b.ptrtoint(a, I64) if a.type == PTR else a for a in map(_value, (x, y))]
        return self.b.icmp_unsigned("==", *words)

    def count_up(self, n: Any) -> AbstractContextManager[Any]:
        """A loop: 0, 1, ... below `n`."""
        return count_up(self.b, n)

    def call(self, name: str, result: Any, *args: Any) -> Any:
        """Call a function of this module, or of others."""
        f = declare(self.b, name, result, [a.type for a in args])
        return self.b.call(f, args)

    def memory(self, kind: Any, count: int | None = None) -> Any:
        """Memory of the function's own, as much in a loop as before it."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind, count)

    def call_object(self, f: Any, *args: Any) -> Any:
        """Call a Python function; the result is owned, or a null pointer."""
        kind = ir.FunctionType(PTR, [PTR], var_arg=True)
        call = self.module.globals.get(CALL) or ir.Function(self.module, kind, CALL)
        return self.b.call(call, [f, *args, ir.Constant(PTR, None)])

    def context(self, variable: Any) -> Any:
        """What is in a context variable that has a default, as an address that is not owned."""
        found = self.memory(PTR)
        self.store(ir.Constant(PTR, None), found, 0)
        self.call(CONTEXT, I32, self.pointer(variable), ir.Constant(PTR, None), found)
        value = self.load(found, 0, PTR)
        self.call("Py_DecRef", VOID, value)
        return value

    def look_up(self, holder: Any, key: Any) -> Any:
        """What a dictionary has under a key, or a null pointer."""
        found = self.call(LOOKUP, PTR, holder, key)
        with self.b.if_then(self.equal(found, 0), likely=False):
            self.call(CLEAR, VOID)
        return found

    def look_up_at(self, holder: Any, key: Any, place: Sequence[Any]) -> Any:
        """The same of a key whose `place` was known once; see `place_of_key`."""
        b, (table, form, at) = self.b, place
        found = self.memory(PTR)
        now = self.field(holder, KEYS.at)
        with b.if_else(self.equal(now, table)) as (same, other):
            with same:
                entry = self.place(now, at)
                alike = self.equal(b.sext(self.field(now, KEYS.form, I32), I64), form)
                alike = b.and_(alike, self.equal(self.load(entry, 0), key))
                self.store(
                    b.select(alike, self.load(entry, 1, PTR), ir.Constant(PTR, None)), found, 0
                )
            with other:
                self.store(ir.Constant(PTR, None), found, 0)
        with b.if_then(self.equal(self.load(found, 0, PTR), 0), likely=False):
            self.store(self.look_up(holder, key), found, 0)
        return self.load(found, 0, PTR)

    def return_(self, result: Any) -> None:
        """Return."""
        self.b.ret(_value(result))

    def return_if(self, condition: Any, result: Any) -> None:
        """Return where the condition holds, which is rare."""
        with self.b.if_then(condition, likely=False):
            self.return_(result)

    def return_unless(self, condition: Any, result: Any) -> None:
        """Return where the condition does not hold."""
        self.return_if(self.b.not_(condition), result)
