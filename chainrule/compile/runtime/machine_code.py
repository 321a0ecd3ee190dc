"""Machine code in this process: a module goes in, a function that can be called comes out.

LLVM is loaded where something is compiled, not where code comes from the cache.
"""

from __future__ import annotations

import ctypes
from typing import Any, final

from chainrule.compile.cpu.symbols import PARALLEL, UNDO
from chainrule.compile.runtime import libraries
from chainrule.compile.runtime.code_placement import Symbols, placed
from chainrule.compile.runtime.threads import Pool, the_pool

# All are called with the interpreter's lock; what runs programs gives it back meanwhile. What their
# signals' handlers raise is raised by the call.
Entry = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 5)
"""void run(objects, scratch, sizes, host, times)."""

_P, _I = ctypes.c_void_p, ctypes.c_int64
Repeat = ctypes.PYFUNCTYPE(None, _P, _P, _P, _I, _P)
"""void repeat(objects, plan, rows, calls, host)."""


@final
class Code:
    """Machine code, which lives as long as this object; `call` runs it."""

    def __init__(self, symbols: Symbols, pool: Pool | None) -> None:
        self._symbols = symbols
        self.pool = pool
        self.call = Entry(symbols.address("run"))
        self.repeat = Repeat(symbols.address("repeat"))
        self.enter = symbols.address("enter")
        undo = symbols.address(UNDO)
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
    from chainrule.compile.llvm.host_target import start, target
    from chainrule.compile.llvm.passes import run_passes

    start()
    machine = target()
    return run_passes(text, machine), machine


def load(code: bytes) -> Code:
    """The functions of an object file, in this process."""
    if libraries.is_called(code):
        libraries.link()
    pool = the_pool() if PARALLEL.encode() in code else None
    return Code(placed(code), pool)
