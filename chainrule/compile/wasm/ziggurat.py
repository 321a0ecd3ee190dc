"""Normally distributed numbers by the ziggurat method, as NumPy draws them.

Marsaglia and Tsang, The ziggurat method for generating random variables, J. Stat. Softw. 5 (2000),
with 256 strips. The widths of the strips are NumPy's own, to the last bit: they are what it draws
from generators whose state is chosen for that. What decides in a strip's thin edge is computed from
these, so that it may differ from NumPy in one of some 2^50 numbers.

Notation: x = n w[i], n of 52 bits, is in strip i; it is under the curve at once if n < k[i].
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from llvmlite import ir

from chainrule.compile import mathlib
from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.numbers import I64

STRIPS: Final = 256
TAIL: Final = 3.6541528853610088
"""Where the tail begins (256 strips)."""
_F64, _HALF = ir.DoubleType(), 2.0**51


@cache
def tables() -> tuple[Any, Any, Any]:
    """w, k, and the curve's height at the outer edge of each strip."""
    w = np.array([_width(i) for i in range(STRIPS)])
    edges = w * 2.0**52  # of strip 0 a rectangle with the area of its tail
    height = np.exp(-0.5 * edges * edges)
    height[0] = 1.0
    inner = np.array([TAIL, 0.0, *edges[1:-1]])
    k = np.floor(inner / edges * 2.0**52).astype(np.int64)
    return w, k, height


def _width(i: int) -> float:
    """w[i]: what NumPy makes of n = 2^38 in strip i, less that power."""
    wanted = i | 1 << (9 + 38)
    bits: Any = np.random.PCG64(0)
    state: Any = dict(bits.state)
    inc, inverse = state["state"]["inc"], pow(0x2360ED051FC65DA44385DF649FCCF645, -1, 2**128)
    # the step that follows gives a state of high half `wanted`, low half 0, which is not rotated
    state["state"] = {"state": ((wanted << 64) - inc) * inverse % 2**128, "inc": inc}
    bits.state = state
    return float(np.random.Generator(bits).standard_normal() / 2.0**38)


def normal(b: Any, g: Any) -> Any:
    """Emit a call: a number from the generator at `g`."""
    from chainrule.compile.wasm.draws import call_draw

    return call_draw(b, "random_normal", _F64, _write, g)


def _write(b: Any, g: Any) -> None:
    """Write the function's body: a look at the table, and now and then a second draw."""
    from chainrule.compile.wasm.draws import bits, unit

    w, k, height = [_table(b, name, x) for name, x in zip("wkh", tables(), strict=True)]
    names = ("again", "sure", "unsure", "tail", "tail_out", "edge")
    again, sure, unsure, tail, tail_out, edge = map(b.append_basic_block, names)
    b.branch(again)
    b.position_at_end(again)
    r = bits(b, g)
    i, n = _field(b, r, 0, 8), _field(b, r, 9, 52)
    negative = b.trunc(_field(b, r, 8, 1), ir.IntType(1))
    size = b.fmul(b.uitofp(n, _F64), _at(b, w, i, _F64))
    x = b.select(negative, b.fneg(size), size)
    b.cbranch(b.icmp_unsigned("<", n, _at(b, k, i, I64)), sure, unsure)
    b.position_at_end(sure)
    b.ret(x)
    b.position_at_end(unsure)
    b.cbranch(b.icmp_unsigned("==", i, ir.Constant(I64, 0)), tail, edge)
    b.position_at_end(tail)
    beyond = b.fmul(_number(-1 / TAIL), _log_rest(b, unit(b, g)))
    y = b.fneg(_log_rest(b, unit(b, g)))
    inside = b.fcmp_ordered(">", b.fadd(y, y), b.fmul(beyond, beyond))
    b.cbranch(inside, tail_out, tail)
    b.position_at_end(tail_out)
    far = b.fadd(_number(TAIL), beyond)
    b.ret(b.select(b.trunc(_field(b, n, 8, 1), ir.IntType(1)), b.fneg(far), far))
    b.position_at_end(edge)
    low = _at(b, height, i, _F64)
    high = _at(b, height, b.sub(i, ir.Constant(I64, 1)), _F64)
    drawn = b.fadd(b.fmul(b.fsub(high, low), unit(b, g)), low)
    under = b.fmul(b.fmul(_number(-0.5), x), x)
    curve = mathlib.emit("exp", b, under, target=b.module.target)
    out = b.append_basic_block("out")
    b.cbranch(b.fcmp_ordered("<", drawn, curve), out, again)
    b.position_at_end(out)
    b.ret(x)


def _number(x: float) -> Any:
    return ir.Constant(_F64, x)


def _field(b: Any, r: Any, start: int, size: int) -> Any:
    """So many bits of `r`."""
    return b.and_(b.lshr(r, ir.Constant(I64, start)), ir.Constant(I64, (1 << size) - 1))


def _log_rest(b: Any, u: Any) -> Any:
    """log(1 - u)."""
    return mathlib.emit("log1p", b, b.fneg(u), target=b.module.target)


def _table(b: Any, name: str, values: Any) -> Any:
    data = values.tobytes()
    kind = ir.ArrayType(nums.I8, len(data))
    g: Any = ir.GlobalVariable(b.module, kind, f"ziggurat.{name}")
    g.linkage, g.global_constant, g.align = "internal", True, 8
    g.initializer = ir.Constant(kind, bytearray(data))
    return g


def _at(b: Any, table: Any, i: Any, kind: Any) -> Any:
    return b.load(b.gep(table, [i], source_etype=kind), typ=kind)
