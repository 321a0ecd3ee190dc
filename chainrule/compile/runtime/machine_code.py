"""Machine code in this process: a module goes in, a function that can be called comes out."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, final

import llvmlite.binding

from chainrule.compile.cpu import call_gate
from chainrule.compile.cpu.interrupts import CLOCK, PYTHON
from chainrule.compile.cpu.symbols import UNDO
from chainrule.compile.cpu.thread_pool import NAME as PARALLEL
from chainrule.compile.llvm.host_target import start, target
from chainrule.compile.llvm.passes import run_passes
from chainrule.compile.runtime import libraries
from chainrule.compile.runtime.threads import Pool, the_pool

llvm: Any = llvmlite.binding
# All are called with the interpreter's lock; what runs programs gives it back meanwhile. What their
# signals' handlers raise is raised by the call.
Entry = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 5)
"""void run(objects, scratch, sizes, host, times)."""

_P, _I = ctypes.c_void_p, ctypes.c_int64
Repeat = ctypes.PYFUNCTYPE(None, _P, _P, _P, _I, _I, _P)
"""void repeat(objects, places, rows, moving, turns, host)."""
Unchanged = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
"""int64 unchanged(rows, count)."""


@final
class Code:
    """Machine code, which lives as long as this object; `call` runs it."""

    def __init__(self, engine: Any, pool: Pool | None) -> None:
        self._engine = engine
        self.pool = pool
        self.call = Entry(engine.get_function_address("run"))
        self.repeat = Repeat(engine.get_function_address("repeat"))
        self.unchanged = Unchanged(engine.get_function_address("unchanged"))
        self.again: int = engine.get_function_address("again")
        self.enter: int = engine.get_function_address("enter")
        undo = engine.get_global_value_address(UNDO)
        count = _I.from_address(undo).value
        self.undo: list[int] = list((_I * (count + 1)).from_address(undo))[1:]


def compile_object(text: str) -> bytes:
    """An object file, for this machine, of a module in LLVM's language.

    It names what it calls by symbols, so that any process can load it.
    """
    module, machine = optimize(text)
    return machine.emit_object(module)


def optimize(text: str) -> tuple[Any, Any]:
    """A module in LLVM's language as it is before it becomes machine code, and the machine."""
    start()
    machine = target()
    return run_passes(text, machine), machine


def load(code: bytes) -> Code:
    """The functions of an object file, in this process."""
    start()
    _link_python()
    if libraries.is_called(code):
        libraries.link()
    pool = the_pool() if PARALLEL.encode() in code else None
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Code(engine, pool)


@cache
def _link_python() -> None:
    """Let machine code find Python, and a clock."""
    found = [
        getattr(ctypes.pythonapi, name) for name in dict.fromkeys([*call_gate.PYTHON, *PYTHON])
    ]
    if os.name == "nt":
        found.append(getattr(ctypes.windll.kernel32, CLOCK))  # pyright: ignore
    for f in found:
        llvm.add_symbol(f.__name__, ctypes.cast(f, ctypes.c_void_p).value)
