"""Machine code in this process: a module goes in, a function that can be called comes out."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, final

import llvmlite.binding  # pyright: ignore[reportMissingTypeStubs]

from chainrule.compile.llvm import gate
from chainrule.compile.llvm.interrupts import CLOCK, PYTHON
from chainrule.compile.llvm.machine import start, target
from chainrule.compile.llvm.pool import NAME as PARALLEL
from chainrule.compile.llvm.symbols import INLINE, UNDO
from chainrule.compile.running import blas
from chainrule.compile.running.threads import Pool, the_pool

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


def compiled(text: str) -> bytes:
    """An object file, for this machine, of a module in LLVM's language.

    It names what it calls by symbols, so that any process can load it.
    """
    module, machine = optimized(text)
    return machine.emit_object(module)


def optimized(text: str) -> tuple[Any, Any]:
    """A module in LLVM's language as it is before it becomes machine code, and the machine.

    Kernels come vectorized, unrolled and without duplicates, and call nothing that could be
    inlined: so it takes LLVM's passes over functions, once, and none of those over modules. Only
    kernels of short loops become parts of these, which then are worth more.
    """
    start()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = target()
    inlining = INLINE in text
    options = llvm.create_pipeline_tuning_options(speed_level=2 if inlining else 1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if inlining:
        builder.getModulePassManager().run(module, builder)
        return module, machine
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module, machine


def loaded(code: bytes) -> Code:
    """The functions of an object file, in this process."""
    start()
    _link_python()
    if blas.is_called(code):
        blas.link()
    pool = the_pool() if PARALLEL.encode() in code else None
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Code(engine, pool)


@cache
def _link_python() -> None:
    """Let machine code find Python, and a clock."""
    found = [getattr(ctypes.pythonapi, name) for name in dict.fromkeys([*gate.PYTHON, *PYTHON])]
    if os.name == "nt":
        found.append(getattr(ctypes.windll.kernel32, CLOCK))  # pyright: ignore
    for f in found:
        llvm.add_symbol(f.__name__, ctypes.cast(f, ctypes.c_void_p).value)
