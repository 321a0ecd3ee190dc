"""Reads `data` of many Values at once, in machine code, where CPython keeps things as expected.

    int64 read(values, count, out): how many were floats, from the first on

`values` are addresses of Values, `out` is for their numbers. What holds an int is left to Python.
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

from chainrule.compile.cpu.object_layout import KIND, word
from chainrule.compile.llvm.host_target import target
from chainrule.compile.llvm.serial_loops import count_up
from chainrule.compile.runtime.machine_code import compiled
from chainrule.scalar import Value

llvm: Any = llvmlite.binding
_I64, _F64, _PTR, _I8 = ir.IntType(64), ir.DoubleType(), ir.PointerType(), ir.IntType(8)
_NUMBER = 2 * KIND
"""Bytes from the start of a float to its number."""


@final
class StateReader:
    """Reads the numbers of `values`, which it keeps."""

    def __init__(self, values: Sequence[Value]) -> None:
        self._values = values
        self._addresses = np.array([id(v) for v in values], np.int64)
        self._read = reader()

    def into(self, out: Any) -> None:
        """Write the numbers into the array `out`."""
        n = len(self._values)
        done = 0
        if self._read is not None:
            done = self._read(self._addresses.ctypes.data, n, out.ctypes.data)
        if done < n:
            out[done:] = [v.data for v in self._values[done:]]


@cache
def _data_slot() -> int | None:
    """How far into a Value its `data` is; None if that, or a float's number, is not to be seen."""
    x = float("1.5")
    v = Value(x)
    at = [i for i in range(0, Value.__basicsize__, KIND) if word(id(v) + i) == id(x)]
    is_float = word(id(x) + KIND) == id(float)
    seen = ctypes.c_double.from_address(id(x) + _NUMBER).value
    return at[0] if len(at) == 1 and is_float and seen == x else None


@cache
def reader() -> Any:
    """The function, or None where Values are not laid out as expected."""
    slot = _data_slot()
    if slot is None:
        return None
    module = ir.Module("read")
    module.triple = llvm.get_process_triple()
    f = ir.Function(module, ir.FunctionType(_I64, [_PTR, _I64, _PTR]), "read")
    values, count, out = f.args
    b = ir.IRBuilder(f.append_basic_block())

    def held(thing: Any, at: int, kind: Any) -> Any:
        place = b.gep(thing, [ir.Constant(_I64, at)], source_etype=_I8)
        return b.load(place, typ=kind)

    with count_up(b, count) as i:
        v = b.load(b.gep(values, [i], source_etype=_PTR), typ=_PTR)
        x = held(v, slot, _PTR)
        there = b.icmp_unsigned("!=", b.ptrtoint(x, _I64), ir.Constant(_I64, 0))
        with b.if_then(b.not_(there)):
            b.ret(i)
        same = b.icmp_unsigned("==", held(x, KIND, _I64), ir.Constant(_I64, id(float)))
        with b.if_then(b.not_(same)):
            b.ret(i)
        b.store(held(x, _NUMBER, _F64), b.gep(out, [i], source_etype=_F64))
    b.ret(count)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(compiled(str(module))))
    engine.finalize_object()
    _engines.append(engine)
    kind = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return kind(engine.get_function_address("read"))


_engines: list[Any] = []
"""What the machine code belongs to."""
