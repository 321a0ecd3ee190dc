"""chainrule's generators in WebAssembly: the numbers that NumPy's PCG64 gives, in the same order.

A generator is six words of the module's state, as NumPy keeps it: the state of the stream and its
increment, 128 bits each; whether half a number is left over; that half. O'Neill, PCG: A family of
simple fast space-efficient statistically good algorithms, HMC-CS-2014-0905 (XSL RR 128/64);
Lemire, Fast random integer generation in an interval, ACM TOMACS 29 (2019).

Notation: `g` the address of a generator, `b` the builder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir

from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.numbers import I64
from chainrule.compile.llvm.serial_loops import count_up
from chainrule.random import Draw, Generator

WORDS: Final = 6
"""Words of a generator."""
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_PTR, _I128, _I32, _F64 = ir.PointerType(), ir.IntType(128), ir.IntType(32), ir.DoubleType()
_NUMBER, _BIT, _WHOLE = np.dtype(np.float64), np.dtype(bool), np.dtype(np.int64)


def state_words(generator: Generator) -> Any:
    """A generator as it is now."""
    state = generator.state
    both = [state["state"]["state"], state["state"]["inc"]]
    parts = [n >> shift & (2**64 - 1) for n in both for shift in (0, 64)]
    return np.array([*parts, state["has_uint32"], state["uinteger"]], np.uint64)


def fill(b: Any, draw: Draw, g: Any, to: Any, count: Any) -> None:
    """Emit `count` numbers of a draw, from the generator at `g` to the address `to`; to nowhere if
    that is None."""
    with count_up(b, count) as i:
        value, kind = KINDS[draw.kind](b, g, *draw.parameters)
        if to is not None:
            dtype = np.dtype(draw.dtype)
            number = nums.cast(b, value, kind, dtype)
            if dtype.kind == "b":
                number = b.zext(number, nums.I8)
            b.store(number, b.gep(to, [i], source_etype=number.type))


# --- the stream ----------------------------------------------------------------------------------


def word(b: Any, g: Any, n: int) -> Any:
    """The address of a word of a generator."""
    return b.gep(g, [ir.Constant(I64, n)], source_etype=I64)


def call_draw(b: Any, name: str, result: Any, write: Callable[[Any, Any], None], g: Any) -> Any:
    """Call a function of a generator, which is written when it is called first."""
    f = b.module.globals.get(name)
    if f is None:
        f = ir.Function(b.module, ir.FunctionType(result, [_PTR]), name)
        f.linkage = "internal"
        f.attributes.add("noinline")
        write(ir.IRBuilder(f.append_basic_block()), f.args[0])
    return b.call(f, [g])


def bits(b: Any, g: Any) -> Any:
    """64 random bits."""

    def write(b: Any, g: Any) -> None:
        step = b.load(word(b, g, 2), typ=_I128)
        state = b.add(b.mul(b.load(g, typ=_I128), ir.Constant(_I128, _MULTIPLIER)), step)
        b.store(state, g)
        high = b.trunc(b.lshr(state, ir.Constant(_I128, 64)), I64)
        mixed, by = b.xor(high, b.trunc(state, I64)), b.lshr(high, ir.Constant(I64, 58))
        b.ret(b.call(nums.declare(b, "llvm.fshr.i64", I64, [I64] * 3), [mixed, mixed, by]))

    return call_draw(b, "random_bits", I64, write, g)


def half(b: Any, g: Any) -> Any:
    """32 random bits, as an I64: the low half of a number, and the next time its high half."""

    def write(b: Any, g: Any) -> None:
        kept, fresh = b.append_basic_block("kept"), b.append_basic_block("fresh")
        zero, has, rest = ir.Constant(I64, 0), word(b, g, 4), word(b, g, 5)
        b.cbranch(b.icmp_unsigned("!=", b.load(has, typ=I64), zero), kept, fresh)
        b.position_at_end(kept)
        b.store(zero, has)
        b.ret(b.load(rest, typ=I64))
        b.position_at_end(fresh)
        both = bits(b, g)
        b.store(ir.Constant(I64, 1), has)
        b.store(b.lshr(both, ir.Constant(I64, 32)), rest)
        b.ret(b.and_(both, ir.Constant(I64, 2**32 - 1)))

    return call_draw(b, "random_half", I64, write, g)


def unit(b: Any, g: Any) -> Any:
    """A float64 in [0, 1), a multiple of 2^-53."""
    high = b.lshr(bits(b, g), ir.Constant(I64, 11))
    return b.fmul(b.uitofp(high, _F64), ir.Constant(_F64, 2.0**-53))


# --- the kinds -----------------------------------------------------------------------------------

Drawn = tuple[Any, Any]
"""A number, and its dtype."""


def _number(x: float) -> Any:
    return ir.Constant(_F64, float(x))


def _uniform(b: Any, g: Any, low: float, high: float) -> Drawn:
    width = _number(float(high) - float(low))
    return b.fadd(_number(low), b.fmul(width, unit(b, g))), _NUMBER


def _bernoulli(b: Any, g: Any, p: float) -> Drawn:
    return b.fcmp_ordered("<", unit(b, g), _number(p)), _BIT


def _normal(b: Any, g: Any, mean: float, std: float) -> Drawn:
    from chainrule.compile.wasm.ziggurat import normal

    return b.fadd(_number(mean), b.fmul(_number(std), normal(b, g))), _NUMBER


def _integers(b: Any, g: Any, low: int, high: int) -> Drawn:
    """By Lemire's multiplication, with 32 bits where these are enough."""
    count, start = int(high) - int(low), ir.Constant(I64, int(low))
    if count == 1:
        return start, _WHOLE
    if count == 2**32:
        return b.add(start, half(b, g)), _WHOLE
    if count == 2**64:
        return b.add(start, bits(b, g)), _WHOLE
    width, draw = (32, half) if count < 2**32 else (64, bits)
    wide = ir.IntType(128)
    again, enough = b.append_basic_block("again"), b.append_basic_block("enough")
    b.branch(again)
    b.position_at_end(again)
    product = b.mul(b.zext(draw(b, g), wide), ir.Constant(wide, count))
    below = b.and_(product, ir.Constant(wide, 2**width - 1))
    few = ir.Constant(wide, (2**width - count) % count)
    b.cbranch(b.icmp_unsigned("<", below, few), again, enough)
    b.position_at_end(enough)
    return b.add(start, b.trunc(b.lshr(product, ir.Constant(wide, width)), I64)), _WHOLE


KINDS: Final[dict[str, Callable[..., Drawn]]] = {
    "uniform": _uniform,
    "bernoulli": _bernoulli,
    "normal": _normal,
    "integers": _integers,
}
"""By the name of a draw, one number of it."""
