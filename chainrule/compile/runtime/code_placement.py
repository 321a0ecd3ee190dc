"""Object files in the memory of this process: linked here, or by LLVM where `linking.py` cannot."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, Protocol, final

from chainrule.compile.cpu.symbols import CLOCK, PYTHON
from chainrule.compile.runtime import linking
from chainrule.compile.runtime.linking import Linked, UnlinkableError


class Symbols(Protocol):
    """Code in memory; it lives as long as this object."""

    def address(self, name: str) -> int:
        """Where a function or a variable is."""
        ...


def placed(code: bytes) -> Symbols:
    """An object file in the memory of this process."""
    try:
        return Linked(code)
    except UnlinkableError:
        return ByLLVM(code)


@final
class ByLLVM:
    """The code of an object file of any kind."""

    def __init__(self, code: bytes) -> None:
        import llvmlite.binding

        from chainrule.compile.llvm.host_target import start, target

        llvm: Any = llvmlite.binding
        start()
        _link_python(llvm)
        for name, address in linking.known.items():
            llvm.add_symbol(name, address)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function or a variable is; 0 if there is none of that name."""
        return self._engine.get_function_address(name) or self._engine.get_global_value_address(
            name
        )


@cache
def _link_python(llvm: Any) -> None:
    """Let machine code find Python, and a clock."""
    found = [getattr(ctypes.pythonapi, name) for name in PYTHON]
    if os.name == "nt":
        found.append(getattr(ctypes.windll.kernel32, CLOCK))  # pyright: ignore
    for f in found:
        llvm.add_symbol(f.__name__, ctypes.cast(f, ctypes.c_void_p).value)
