"""The numbers and gradients of many Values at once, and the items of lists, in machine code.

    int64 read(slots, count, out)                out[i] = *slots[i]
    int64 add(slots, count, slopes, g)           *slots[i] += g * slopes[i]
    int64 write(slots, count, numbers)           *slots[i] = numbers[i]
    int64 fill(slots, count, thing)              *slots[i] = thing

A slot is the address of a reference to a float: within a Value, or in the memory of a list. All
look into the objects, where CPython keeps what a slot holds and a float its number, which is made
sure of by looking. They end where something is not as expected (an int, say), and say how far they
came: Python does the rest. A float that nobody else refers to is written in its place.
"""

# What Value keeps to itself is looked at where it lies.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, final

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from chainrule.compile.cpu.object_layout import KIND, word
from chainrule.compile.llvm.host_target import target
from chainrule.compile.llvm.serial_loops import count_up
from chainrule.compile.runtime.machine_code import compile_object
from chainrule.engine.op import Array
from chainrule.scalar import Value

llvm: Any = llvmlite.binding
_I64, _F64, _PTR, _I8 = ir.IntType(64), ir.DoubleType(), ir.PointerType(), ir.IntType(8)
Addresses = NDArray[np.int64]
_NUMBER = 2 * KIND
"""Bytes from the start of a float to its number."""


@final
class Leaves:
    """Values without operands, which it keeps."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.values = tuple(values)
        self.data, self.gradients = value_slots(values)
        self._code = code()

    def read(self, out: Array) -> None:
        """Write what is in their `data` into `out`."""
        n, done = len(self.values), 0
        if self._code is not None:
            done = self._code.read(self.data.ctypes.data, n, out.ctypes.data)
        if done < n:
            out[done:] = [v.data for v in self.values[done:]]

    def add(self, slopes: Array, g: float) -> None:
        """Add g times a slope to the gradient of each."""
        n, done = len(self.values), 0
        if self._code is not None:
            done = self._code.add(self.gradients.ctypes.data, n, slopes.ctypes.data, g)
        if done < n:
            for v, d in zip(self.values[done:], slopes[done:].tolist(), strict=True):
                v._g += g * d


@cache
def _slots() -> tuple[int, int] | None:
    """How far into a Value its `data` and its gradient are; None if these, or a float's number, are
    not to be seen."""
    x, g = float("1.5"), float("2.5")
    v = Value(x)
    v._g = g
    words = {word(id(v) + at): at for at in range(0, Value.__basicsize__, KIND)}
    is_float = word(id(x) + KIND) == id(float)
    seen = ctypes.c_double.from_address(id(x) + _NUMBER).value
    found = words.get(id(x)), words.get(id(g))
    return found if None not in found and is_float and seen == x else None  # type: ignore[return-value]


def value_slots(values: Sequence[Value]) -> tuple[Addresses, Addresses]:
    """The slots of the data and of the gradients of Values; nothing if these are not to be seen."""
    found = _slots()
    where = np.array([id(v) for v in values], np.int64)
    return (where, where) if found is None else (where + found[0], where + found[1])


@final
class Code:
    """The machine code of all functions, called with the interpreter's lock."""

    def __init__(self) -> None:
        module = ir.Module("leaves")
        module.triple = llvm.get_process_triple()
        api = _Api(module)
        _write_read(_Function(module, "read", [_PTR, _I64, _PTR]))
        _write_add(_Function(module, "add", [_PTR, _I64, _PTR, _F64]), api)
        _write_write(_Function(module, "write", [_PTR, _I64, _PTR]), api)
        _write_fill(_Function(module, "fill", [_PTR, _I64, _PTR]), api)
        for name in ("PyFloat_FromDouble", "Py_DecRef", "Py_IncRef"):
            f = getattr(ctypes.pythonapi, name)
            llvm.add_symbol(name, ctypes.cast(f, ctypes.c_void_p).value)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(compile_object(str(module))))
        self._engine.finalize_object()
        pointer, count, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
        kind = ctypes.PYFUNCTYPE(count, pointer, count, pointer)
        self.read = kind(self._engine.get_function_address("read"))
        self.write = kind(self._engine.get_function_address("write"))
        self.fill = kind(self._engine.get_function_address("fill"))
        kind = ctypes.PYFUNCTYPE(count, pointer, count, pointer, number)
        self.add = kind(self._engine.get_function_address("add"))


@cache
def code() -> Code | None:
    """The functions, or None where Values are not laid out as expected."""
    return None if _slots() is None else Code()


@final
class _Api:
    """Functions of CPython's."""

    def __init__(self, module: Any) -> None:
        void = ir.FunctionType(ir.VoidType(), [_PTR])
        self.make = ir.Function(module, ir.FunctionType(_PTR, [_F64]), "PyFloat_FromDouble")
        self.forget = ir.Function(module, void, "Py_DecRef")
        self.keep = ir.Function(module, void, "Py_IncRef")


@final
class _Function:
    """A function that is being written."""

    def __init__(self, module: Any, name: str, kinds: Sequence[Any]) -> None:
        self.module = module
        f = ir.Function(module, ir.FunctionType(_I64, kinds), name)
        self.args = f.args
        self.b = ir.IRBuilder(f.append_basic_block())

    def element(self, array: Any, i: Any, kind: Any) -> Any:
        """The address of an element."""
        return self.b.gep(array, [i], source_etype=kind)

    def place(self, thing: Any, at: int) -> Any:
        """An address within an object."""
        return self.b.gep(thing, [ir.Constant(_I64, at)], source_etype=_I8)

    def held(self, thing: Any, at: int, kind: Any) -> Any:
        """What an object holds there."""
        return self.b.load(self.place(thing, at), typ=kind)

    def is_(self, thing: Any, address: int) -> Any:
        """Whether a word is this address."""
        x = self.b.ptrtoint(thing, _I64) if thing.type == _PTR else thing
        return self.b.icmp_unsigned("==", x, ir.Constant(_I64, address))

    def end_if(self, condition: Any, result: Any) -> None:
        """Return `result` where the condition holds."""
        with self.b.if_then(condition, likely=False):
            self.b.ret(result)


def _write_read(s: _Function) -> None:
    slots, count, out = s.args
    zero = s.b.alloca(_F64)
    s.b.store(ir.Constant(_F64, 0.0), zero)
    with count_up(s.b, count) as i:
        x = s.b.load(s.b.load(s.element(slots, i, _PTR), typ=_PTR), typ=_PTR)
        s.end_if(s.is_(x, 0), i)
        is_float = s.is_(s.held(x, KIND, _I64), id(float))
        s.end_if(s.b.not_(s.b.or_(is_float, s.is_(x, id(0)))), i)
        number = s.b.select(is_float, s.place(x, _NUMBER), zero)
        s.b.store(s.b.load(number, typ=_F64), s.element(out, i, _F64))
    s.b.ret(count)


def _write_add(s: _Function, api: _Api) -> None:
    slots, count, slopes, g = s.args
    b = s.b
    with count_up(b, count) as i:
        slot = b.load(s.element(slots, i, _PTR), typ=_PTR)
        old = b.load(slot, typ=_PTR)
        s.end_if(s.is_(old, 0), i)
        nothing = s.is_(old, id(0))  # the int 0, which a gradient starts as
        is_float = s.is_(s.held(old, KIND, _I64), id(float))
        s.end_if(b.not_(b.or_(nothing, is_float)), i)
        # an int is shorter than a float, so that it is not read as one
        start = b.select(nothing, s.place(slot, -_NUMBER), old)
        x = b.select(nothing, ir.Constant(_F64, 0.0), s.held(start, _NUMBER, _F64))
        more = b.fmul(g, b.load(s.element(slopes, i, _F64), typ=_F64))
        new = b.call(api.make, [b.fadd(x, more)])
        s.end_if(s.is_(new, 0), i)
        b.store(new, slot)
        b.call(api.forget, [old])
    b.ret(count)


def _write_write(s: _Function, api: _Api) -> None:
    slots, count, numbers = s.args
    b = s.b
    with count_up(b, count) as i:
        slot = b.load(s.element(slots, i, _PTR), typ=_PTR)
        x = b.load(s.element(numbers, i, _F64), typ=_F64)
        old = b.load(slot, typ=_PTR)
        s.end_if(s.is_(old, 0), i)
        is_float = s.is_(s.held(old, KIND, _I64), id(float))
        alone = b.and_(is_float, s.is_(s.held(old, 0, _I64), 1))
        with b.if_else(alone) as (here, anew):
            with here:
                b.store(x, s.place(old, _NUMBER))
            with anew:
                new = b.call(api.make, [x])
                s.end_if(s.is_(new, 0), i)
                b.store(new, slot)
                b.call(api.forget, [old])
    b.ret(count)


def _write_fill(s: _Function, api: _Api) -> None:
    slots, count, thing = s.args
    b = s.b
    with count_up(b, count) as i:
        slot = b.load(s.element(slots, i, _PTR), typ=_PTR)
        old = b.load(slot, typ=_PTR)
        s.end_if(s.is_(old, 0), i)
        with b.if_then(b.icmp_unsigned("!=", old, thing)):
            b.call(api.keep, [thing])
            b.store(thing, slot)
            b.call(api.forget, [old])
    b.ret(count)
