"""Machine code that looks whether a call is like the one before: the same for all programs."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import final

from chainrule.compile.runtime.cache.objects import kept_object
from chainrule.compile.runtime.code_placement import placed
from chainrule.compile.runtime.machine_code import compile_object

Unchanged = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
"""int64 unchanged(rows, count)."""


@final
class Looks:
    """`unchanged` as a function (see `cpu/word_guards.py`), and the addresses of `again` (see
    `cpu/call_gate.py`), of `call` (see `cpu/whole_call.py`), of `collect_all`
    (see `cpu/call_rows.py`)."""

    def __init__(self) -> None:
        self._code = placed(kept_object("looks", _compiled))
        self.unchanged = Unchanged(self._code.address("unchanged"))
        self.again = self._code.address("again")
        self.call = self._code.address("call")
        self.collect_all = self._code.address("collect_all")


@cache
def looks() -> Looks:
    """The only ones; made when they are first needed."""
    return Looks()


def _compiled() -> bytes:
    from chainrule.compile.cpu.call_gate import add_call_gate
    from chainrule.compile.cpu.call_rows import add_call_rows
    from chainrule.compile.cpu.whole_call import add_whole_call
    from chainrule.compile.cpu.word_guards import add_word_guard
    from chainrule.compile.llvm.host_target import TargetModule, host

    module = TargetModule("looks", host())
    add_word_guard(module)
    add_call_gate(module)
    add_call_rows(module)
    add_whole_call(module)
    return compile_object(str(module))
