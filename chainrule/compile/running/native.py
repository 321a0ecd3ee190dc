"""Machine code in this process: a module goes in, a function that can be called comes out."""

from __future__ import annotations

import ctypes
from functools import cache
from itertools import count
from typing import Any, final
from weakref import WeakValueDictionary

import llvmlite.binding  # pyright: ignore[reportMissingTypeStubs]

from chainrule.compile.llvm.gate import PYTHON
from chainrule.compile.llvm.machine import start, target
from chainrule.compile.llvm.pool import NAME as PARALLEL
from chainrule.compile.llvm.symbols import HOST, INLINE
from chainrule.compile.running import blas
from chainrule.compile.running.threads import Pool, the_pool

llvm: Any = llvmlite.binding
Entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
"""void program(objects, scratch, sizes, host, times)."""

_P, _I = ctypes.c_void_p, ctypes.c_int64
Repeat = ctypes.CFUNCTYPE(None, _P, _P, _P, _I, _I, _P)
"""void repeat(objects, places, rows, moving, turns, host)."""
# called with the lock of the interpreter, which keeps what it looks at as it is
Unchanged = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
"""int64 unchanged(rows, count)."""


@final
class Code:
    """Machine code, which lives as long as this object; `call` runs it."""

    def __init__(self, engine: Any, pool: Pool | None) -> None:
        self._engine = engine
        self.pool = pool
        self.call = Entry(engine.get_function_address("program"))
        self.repeat = Repeat(engine.get_function_address("repeat"))
        self.unchanged = Unchanged(engine.get_function_address("unchanged"))
        self.again: int = engine.get_function_address("again")
        self.enter: int = engine.get_function_address("enter")


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


_programs: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers = count(1)


def number_of(program: Any) -> int:
    """A number by which machine code names `program`, whose `host(i)` it may call."""
    number = next(_numbers)
    _programs[number] = program
    return number


@ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
def _host(program: int, statement: int) -> None:
    _programs[program].host(statement)


@cache
def _link_python() -> None:
    """Let machine code find Python."""
    llvm.add_symbol(HOST, ctypes.cast(_host, ctypes.c_void_p).value)
    for name in PYTHON:
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
