"""One part of W pairs that lie side by side: every second of 2 W numbers, the real parts of complex
numbers, say. What lies between them is neither read nor written.

Notation: W lanes of a vector; `b` the builder; `at` the address of the first lane's number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir

from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.numbers import I1, Value
from chainrule.compile.target import Target

WIDE = 64
"""Bytes of a register from which on there are such masks: AVX-512."""
_I32 = ir.IntType(32)


def pay(target: Target, dtype: Any) -> bool:
    """Whether that is faster than number by number: with masks that are registers of their own."""
    return target.vector >= WIDE and dtype.kind == "f"


def load(b: Any, at: Value, dtype: Any, width: int, mask: Value | None = None) -> Value:
    """The parts of W pairs; 0 where there is a mask and it says no."""
    kind = nums.in_memory(dtype, 2 * width)
    nothing, wanted = nums.anything(kind), _every_second(width)
    rest = nothing if mask is None else ir.Constant(kind, None)
    if mask is not None:
        off = ir.Constant(mask.type, None)
        pairs = [n // 2 if n % 2 == 0 else width for n in range(2 * width)]
        wanted = b.shuffle_vector(mask, off, _order(pairs))
    both = nums.masked_load(b, at, kind, wanted, rest, dtype.itemsize)
    return b.shuffle_vector(both, nothing, _order(range(0, 2 * width, 2)))


def store(b: Any, at: Value, value: Value, dtype: Any) -> None:
    """The inverse."""
    width = nums.lanes_of(value)
    twice = [n // 2 for n in range(2 * width)]
    wide = b.shuffle_vector(value, nums.anything(value.type), _order(twice))
    nums.masked_store(b, wide, at, _every_second(width), dtype.itemsize)


def _every_second(width: int) -> Value:
    lanes = [ir.Constant(I1, n % 2 == 0) for n in range(2 * width)]
    return ir.Constant(ir.VectorType(I1, 2 * width), lanes)


def _order(lanes: Iterable[int]) -> Value:
    found = list(lanes)
    return ir.Constant(ir.VectorType(_I32, len(found)), found)
