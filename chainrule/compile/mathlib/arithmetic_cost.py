"""How much arithmetic a function takes at least, read off the instructions that are written for it.

Counted is the longest polynomial on its way, a multiply-add a coefficient: its degree is the least
for the stated bound. What is written beside it is not: the reduction of the argument, a second
polynomial for another range, corrections, special values. A clumsy function does not count for
more.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from chainrule.compile.mathlib.table import TABLE, emit
from chainrule.compile.target import Target

_FUSED = Target(fma=True)


@cache
def operations(name: str, dtype: Any) -> int:
    """Floating-point operations of the function `name` on numbers of `dtype`, a multiply-add being
    two. A function without a polynomial counts 1, in the table or not: `+`, say."""
    if name not in TABLE:
        return 1
    kind = ir.DoubleType() if np.dtype(dtype).itemsize == 8 else ir.FloatType()
    arguments = [kind] * len(inspect.signature(TABLE[name].f64).parameters)
    written = ir.Function(ir.Module(), ir.FunctionType(kind, arguments), name)
    builder = ir.IRBuilder(written.append_basic_block())
    builder.ret(emit(name, builder, *written.args, target=_FUSED))
    return max(2 * _longest(written), 1)


def _longest(function: Any) -> int:
    """Steps of the longest polynomial by Horner's rule: y z + c, c a constant, y the last step."""
    steps: dict[Any, int] = {}
    for block in function.blocks:
        for i in block.instructions:
            if isinstance(i, ir.CallInstr) and i.callee.name.startswith("llvm.fma"):
                y, _, c = i.args
                if isinstance(c, ir.Constant):
                    steps[i] = 1 + steps.get(y, 0)
    return max(steps.values(), default=0)
