"""Slots of many numbers at once, in machine code.

    int64 read(slots, count, out)                out[i] = *slots[i]
    int64 add(slots, count, slopes, g)           *slots[i] += g * slopes[i]
    int64 write(slots, count, numbers)           *slots[i] = numbers[i]
    int64 fill(slots, count, thing)              *slots[i] = thing
    int64 same(list, items, count)               whether list[i] is items[i], for all i
    int64 put(list, items, count, numbers)       list[i] = items[i] = numbers[i]; how many objects
                                                 it made for that, -1 if it cannot

A slot is the address of a reference to a float: within a Value, or in the memory of a list; `items`
is the memory of another list. All look into the objects, where CPython keeps what a slot holds and
a float its number, which is made sure of by looking. They end where something is not as expected
(an int, say), and say how far they came: Python does the rest. A float that nobody else refers to
is written in its place.
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

from chainrule.compile.cpu.equal_words import equal_words
from chainrule.compile.cpu.function_writer import F64, PTR, VOID, FunctionWriter
from chainrule.compile.cpu.object_layout import ITEMS, KIND, LENGTH, word
from chainrule.compile.llvm.numbers import I64
from chainrule.compile.runtime.code_placement import placed
from chainrule.compile.runtime.machine_code import compile_object
from chainrule.scalar import Value

llvm: Any = llvmlite.binding
Addresses = NDArray[np.int64]
_NUMBER = 2 * KIND
"""Bytes from the start of a float to its number."""


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
        _write_read(FunctionWriter(module, "read", [PTR, I64, PTR]))
        _write_add(FunctionWriter(module, "add", [PTR, I64, PTR, F64]))
        _write_write(FunctionWriter(module, "write", [PTR, I64, PTR]))
        _write_fill(FunctionWriter(module, "fill", [PTR, I64, PTR]))
        add_lists(module)
        self._code = placed(compile_object(str(module)))
        pointer, count, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
        self.read = self._function("read", pointer, count, pointer)
        self.write = self._function("write", pointer, count, pointer)
        self.fill = self._function("fill", pointer, count, pointer)
        self.add = self._function("add", pointer, count, pointer, number)
        self.same = self._function("same", pointer, pointer, count)
        self.put = self._function("put", pointer, pointer, count, pointer)

    def _function(self, name: str, *kinds: Any) -> Any:
        return ctypes.PYFUNCTYPE(ctypes.c_int64, *kinds)(self._code.address(name))


def add_lists(module: Any) -> None:
    """Add `same` and `put` to a module."""
    _write_same(FunctionWriter(module, "same", [PTR, PTR, I64]))
    _write_put(FunctionWriter(module, "put", [PTR, PTR, I64, PTR]))


@cache
def code() -> Code | None:
    """The functions, or None where Values are not laid out as expected."""
    return None if _slots() is None else Code()


def _is_float(s: FunctionWriter, x: Any) -> Any:
    return s.equal(s.field(x, KIND, I64), id(float))


def _has_references(s: FunctionWriter, x: Any, count: int) -> Any:
    """Whether an object has so many references."""
    return s.equal(s.field(x, 0, I64), count)


def _held(s: FunctionWriter, slots: Any, i: Any) -> tuple[Any, Any]:
    """A slot, and what it holds; the function ends where that is nothing."""
    slot = s.load(slots, i, PTR)
    x = s.b.load(slot, typ=PTR)
    s.return_if(s.equal(x, 0), i)
    return slot, x


def _new_float(s: FunctionWriter, x: Any, failed: Any) -> Any:
    """A new float; `failed` is returned where there is no memory."""
    new = s.call("PyFloat_FromDouble", PTR, x)
    s.return_if(s.equal(new, 0), failed)
    return new


def _replace(s: FunctionWriter, slot: Any, old: Any, new: Any) -> None:
    s.b.store(new, slot)
    s.call("Py_DecRef", VOID, old)


def _write_read(s: FunctionWriter) -> None:
    (slots, count, out), b = s.args, s.b
    zero = b.alloca(F64)
    b.store(ir.Constant(F64, 0.0), zero)
    with s.count_up(count) as i:
        _, x = _held(s, slots, i)
        is_float = _is_float(s, x)
        s.return_unless(b.or_(is_float, s.equal(x, id(0))), i)
        number = b.select(is_float, s.place(x, _NUMBER), zero)
        s.store(b.load(number, typ=F64), out, i)
    s.return_(count)


def _write_add(s: FunctionWriter) -> None:
    (slots, count, slopes, g), b = s.args, s.b
    with s.count_up(count) as i:
        slot, old = _held(s, slots, i)
        nothing = s.equal(old, id(0))  # the int 0, which a gradient starts as
        s.return_unless(b.or_(nothing, _is_float(s, old)), i)
        # an int is shorter than a float, so that it is not read as one
        start = b.select(nothing, s.place(slot, -_NUMBER), old)
        x = b.select(nothing, ir.Constant(F64, 0.0), s.field(start, _NUMBER, F64))
        more = b.fmul(g, s.load(slopes, i, F64))
        _replace(s, slot, old, _new_float(s, b.fadd(x, more), i))
    s.return_(count)


def _write_write(s: FunctionWriter) -> None:
    (slots, count, numbers), b = s.args, s.b
    with s.count_up(count) as i:
        x = s.load(numbers, i, F64)
        slot, old = _held(s, slots, i)
        alone = b.and_(_is_float(s, old), _has_references(s, old, 1))
        with b.if_else(alone) as (here, anew):
            with here:
                b.store(x, s.place(old, _NUMBER))
            with anew:
                _replace(s, slot, old, _new_float(s, x, i))
    s.return_(count)


def _write_fill(s: FunctionWriter) -> None:
    (slots, count, thing), b = s.args, s.b
    with s.count_up(count) as i:
        slot, old = _held(s, slots, i)
        with b.if_then(b.icmp_unsigned("!=", old, thing)):
            s.call("Py_IncRef", VOID, thing)
            _replace(s, slot, old, thing)
    s.return_(count)


def _write_same(s: FunctionWriter) -> None:
    thing, other, count = s.args
    s.return_unless(s.equal(s.field(thing, LENGTH, I64), count), 0)
    s.return_(s.b.call(equal_words(s.module), [s.field(thing, ITEMS), other, count]))


def _write_put(s: FunctionWriter) -> None:
    """Write the function that puts numbers into the floats of a list, in place where nobody else
    has them."""
    (thing, other, count, numbers), b = s.args, s.b
    s.return_unless(s.equal(s.field(thing, LENGTH, I64), count), -1)
    items, made = s.field(thing, ITEMS), b.alloca(I64)
    s.store(0, made, 0)
    with s.count_up(count) as i:
        x = s.load(numbers, i, F64)
        old, also = s.load(items, i, PTR), s.load(other, i, PTR)
        both = b.and_(_has_references(s, old, 2), s.equal(old, also))
        with b.if_else(b.and_(_is_float(s, old), both)) as (here, anew):
            with here:
                b.store(x, s.place(old, _NUMBER))
            with anew:
                new = _new_float(s, x, -1)
                s.store(b.add(s.load(made, 0), ir.Constant(I64, 1)), made, 0)
                s.call("Py_IncRef", VOID, new)
                for array in (items, other):
                    s.store(new, array, i)
                for before in (old, also):
                    s.call("Py_DecRef", VOID, before)
    s.return_(s.load(made, 0))
