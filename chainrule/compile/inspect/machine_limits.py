"""What this machine can do at best: how fast it copies, and how fast it multiplies matrices.

Both are measured with code of our own compiler, by the counter that kernels are measured with, and
kept for the process. A copy is as fast as the part of the memory in which its arrays fit, so that
there is a rate for each size.
"""

from __future__ import annotations

import ctypes
import math
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import llvmlite.binding as llvm
import numpy as np

from chainrule.compile.graph.sizes import Size
from chainrule.compile.graph.terms import Program, Terms
from chainrule.compile.llvm.host_target import start, target
from chainrule.compile.runtime.native_program import Native
from chainrule.ops.contraction import MatMul

SIZES = tuple([1 << n for n in (12, 14, 16, 18, 20, 22, 24, 26)])
"""Bytes that the copies move that are measured: from the first cache to the memory."""
SIDE = 512
"""Rows and columns of the product that is measured."""


@final
@dataclass(frozen=True)
class Limits:
    """Bytes a second of copies that move `SIZES` bytes; operations a second of products of floats
    of four bytes and of eight."""

    copies: tuple[float, ...]
    singles: float
    doubles: float

    def copy(self, size: float) -> float:
        """Bytes a second of a copy that moves `size` bytes."""
        i = bisect_left(SIZES, size)
        if i in (0, len(SIZES)):
            return self.copies[min(i, len(SIZES) - 1)]
        return float(np.interp(math.log(size), [math.log(s) for s in SIZES], self.copies))

    def copying(self, moved: int) -> float:
        """The least seconds for moving so many bytes."""
        return moved / self.copy(moved)

    def computing(self, singles: int, doubles: int) -> float:
        """The least seconds for so many operations."""
        return singles / self.singles + doubles / self.doubles

    def seconds(self, moved: int, singles: int, doubles: int) -> float:
        """The least seconds for both, of which one can hide the other."""
        return max(self.copying(moved), self.computing(singles, doubles))


@cache
def limits() -> Limits:
    """Those of this machine; takes about half a second the first time."""
    return Limits(tuple(_copies()), _product(np.float32), _product(np.float64))


def _copies() -> list[float]:
    length: Any = Size.symbol("n")
    x = Terms().input(0, (length,), np.dtype(np.float32))
    native = Native(Program((x,), (x,)))
    rates: list[float] = []
    for size in SIZES:
        n = size // 8  # four bytes in, four bytes out
        arrays = [np.zeros(n, np.float32), np.empty(n, np.float32)]
        rates.append(size / _best(native, arrays, {"n": n}, max(3, min(200, (1 << 25) // size))))
    return rates


def _product(dtype: Any) -> float:
    terms = Terms()
    a, b = [terms.input(i, (SIDE, SIDE), np.dtype(dtype)) for i in range(2)]
    native = Native(Program((a, b), (terms.op(MatMul(), [a, b]),)))
    arrays = [np.ones((SIDE, SIDE), dtype) for _ in range(3)]
    return 2 * SIDE**3 / _best(native, arrays, {}, 8)


def _best(native: Native, arrays: Sequence[Any], symbols: dict[str, int], repeats: int) -> float:
    """Seconds, in the quickest of three rounds."""
    return min([sum(native.measured(arrays, symbols, repeats)) for _ in range(3)]) / ticks()


# --- the counter of the processor that kernels are measured with ----------------------------------

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
