"""What is made of one value, beside it: once, and outside of the loops that do not change it.

LLVM's passes would find the same again and again: a number in every lane, a counter times a stride,
an address. Each time that takes longer than writing it where it belongs.
"""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from llvmlite import ir

from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.numbers import I64, Builder, Value


@final
class Derived:
    """The values that are derived from others in one function."""

    def __init__(self, builder: Builder) -> None:
        self._b = builder
        self._found: dict[Any, Value] = {}
        self._shifts: dict[Value, tuple[Value, int]] = {}

    def splat(self, v: Value, lanes: int) -> Value:
        """`v` in every lane."""
        if nums.lanes_of(v) or not lanes or isinstance(v, ir.Constant):
            return nums.splat(self._b, v, lanes)
        return self._beside(v, ("splat", v, lanes), lambda b: nums.splat(b, v, lanes))

    def plus(self, v: Value, n: int) -> Value:
        """`v` + n, an offset whose distance from `v` is known."""
        if n == 0:
            return v
        if isinstance(v, ir.Constant):
            return ir.Constant(I64, v.constant + n)
        base, before = self.shift(v)
        total = ir.Constant(I64, before + n)
        made = self._beside(
            base, ("plus", base, before + n), lambda b: b.add(base, total, flags=("nsw",))
        )
        self._shifts[made] = base, before + n
        return made

    def shift(self, v: Value) -> tuple[Value, int]:
        """The value that `v` was put beside by `plus`, and how far from it."""
        return self._shifts.get(v, (v, 0))

    def times(self, v: Value, by: Value) -> Value:
        """`v` times a number that is known where the function begins."""
        if isinstance(v, ir.Constant):
            return self._b.mul(v, by, flags=("nsw",))
        return self._beside(v, ("times", v, by), lambda b: b.mul(v, by, flags=("nsw",)))

    def truncated(self, v: Value, kind: Any) -> Value:
        """The lower bits of `v`."""
        return self._beside(v, ("truncated", v, kind), lambda b: b.trunc(v, kind))

    def element(self, pointer: Value, kind: Any, v: Value) -> Value:
        """The address of element `v` from `pointer` on, an address that the function is given."""
        if isinstance(v, ir.Constant):
            return self._b.gep(pointer, [v], source_etype=kind)
        return self._beside(
            v, ("element", pointer, v), lambda b: b.gep(pointer, [v], source_etype=kind)
        )

    def condition(self, xs: Sequence[Value], key: Any, make: Callable[[Builder], Value]) -> Value:
        """A truth value that is made of `xs`, beside them if they are made in one place."""
        made = [x for x in xs if not isinstance(x, ir.Constant)]
        if not made or len({x.parent for x in made}) > 1:
            return make(self._b)
        return self._beside(made[0], (key, *xs), make)

    def _beside(self, v: Value, key: Any, make: Callable[[Builder], Value]) -> Value:
        """What `make` makes, at the end of the block in which `v` was made."""
        found = self._found.get(key)
        if found is None:
            b, block = self._b, v.parent
            if not isinstance(block, ir.Block):  # the function, of which it is an argument
                block = block.entry_basic_block
            if block is b.block:
                found = make(b)
            else:
                with b.goto_block(block):
                    found = make(b)
            self._found[key] = found
        return found
