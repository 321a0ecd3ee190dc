"""A plain loop that counts, for code outside of kernels."""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir


@contextmanager
def count_up(b: Any, n: Any) -> Generator[Any]:
    """A loop: 0, 1, ... below `n`, an integer of any width; what is emitted within is its body."""
    before, zero = b.block, ir.Constant(n.type, 0)
    body, after = b.append_basic_block("iteration"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed(">", n, zero), body, after)
    b.position_at_end(body)
    i = b.phi(n.type)
    i.add_incoming(zero, before)
    yield i
    following = b.add(i, ir.Constant(n.type, 1))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, n), body, after)
    b.position_at_end(after)
