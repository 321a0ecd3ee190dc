"""Functions that LLVM calls where WebAssembly has no instruction, in LLVM's language.

Each is defined only if the object calls it, so that what is not needed is not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MULTIPLY = """
define hidden void @__multi3(ptr %out, i64 %al, i64 %ah, i64 %bl, i64 %bh) {
  %a0 = and i64 %al, 4294967295
  %a1 = lshr i64 %al, 32
  %b0 = and i64 %bl, 4294967295
  %b1 = lshr i64 %bl, 32
  %p00 = mul i64 %a0, %b0
  %p01 = mul i64 %a0, %b1
  %p10 = mul i64 %a1, %b0
  %p11 = mul i64 %a1, %b1
  %c0 = lshr i64 %p00, 32
  %l01 = and i64 %p01, 4294967295
  %l10 = and i64 %p10, 4294967295
  %m0 = add i64 %c0, %l01
  %m = add i64 %m0, %l10
  %h01 = lshr i64 %p01, 32
  %h10 = lshr i64 %p10, 32
  %hm = lshr i64 %m, 32
  %h0 = add i64 %p11, %h01
  %h1 = add i64 %h0, %h10
  %h2 = add i64 %h1, %hm
  %x = mul i64 %al, %bh
  %y = mul i64 %ah, %bl
  %h3 = add i64 %h2, %x
  %high = add i64 %h3, %y
  %low = mul i64 %al, %bl
  store i64 %low, ptr %out
  %next = getelementptr i64, ptr %out, i32 1
  store i64 %high, ptr %next
  ret void
}
"""
"""The product of two 128-bit integers, from 32-bit halves (Knuth, TAOCP 2, 4.3.1)."""

DEFINITIONS: Final = {"__multi3": _MULTIPLY}


def definitions(names: Iterable[str]) -> str:
    """The text of these functions; raises KeyError for one that nobody wrote."""
    return "".join([DEFINITIONS[n] for n in names])
