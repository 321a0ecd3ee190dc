"""The counter of the processor that kernels are measured with."""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
import time
from functools import cache

import llvmlite.binding as llvm

from chainrule.compile.llvm.host_target import start, target

_CLOCK = """
declare i64 @llvm.readcyclecounter()
define i64 @clock() {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
"""


@cache
def ticks() -> float:
    """How often in a second it counts: looked at twice, 20 ms apart."""
    start()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_CLOCK), target())
    engine.finalize_object()
    clock = ctypes.CFUNCTYPE(ctypes.c_int64)(engine.get_function_address("clock"))
    first, began = clock(), time.perf_counter()
    time.sleep(0.02)
    return (clock() - first) / (time.perf_counter() - began)
