"""The remainder of a float64 of any size by 2 pi, in fixed point.

x = m 2^e with an integer m. Of 1 / (2 pi) only 256 bits matter to x / (2 pi): those above are whole
turns, those below are too small. They are read as one integer; their product with m, modulo 2^256,
is the fraction of a turn. No float64 comes closer than about 2^-60 to a multiple of pi, so well
over 100 bits of it are good.
"""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.mathlib.lanes import Lanes
from chainrule.compile.mathlib.reals import Real
from chainrule.compile.mathlib.twofold import Two, constant
from chainrule.compile.target import Target
from chainrule.ops import coefficients as c

I64, I256, DOUBLE = ir.IntType(64), ir.IntType(256), ir.DoubleType()
NAME = "chainrule.remainder_of_turn"
TABLE_BYTES = 200


def _i64(n: int) -> Any:
    return ir.Constant(I64, n)


def _i256(n: int) -> Any:
    return ir.Constant(I256, n)


def remainder_of_turn(builder: Any, x: Any, target: Target) -> tuple[Any, Any]:
    """Writes a call: x (a double) less a multiple of 2 pi, as the sum of two doubles."""
    module = builder.module
    function = module.globals.get(NAME) or _define(module, target)
    pair = builder.call(function, [x])
    return builder.extract_value(pair, 0), builder.extract_value(pair, 1)


def _define(module: Any, target: Target) -> Any:
    pair = ir.LiteralStructType([DOUBLE, DOUBLE])
    function = ir.Function(module, ir.FunctionType(pair, [DOUBLE]), NAME)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    (x,) = function.args
    turns = _fraction(builder, x)
    at = Lanes(builder, DOUBLE, target)
    pi = constant(Real(at, x), c.PI[0] * 2, c.PI[1] * 2)
    rest = Two(*(Real(at, v) for v in turns)) * pi
    # An infinite x has no remainder; a NaN stays one.
    nothing = Real(at, x) - Real(at, x)
    result = builder.insert_value(ir.Constant(pair, ir.Undefined), (rest.hi + nothing).v, 0)
    builder.ret(builder.insert_value(result, rest.lo.v, 1))
    return function


def _table(module: Any) -> Any:
    kind = ir.ArrayType(ir.IntType(8), TABLE_BYTES)
    table: Any = ir.GlobalVariable(module, kind, NAME + ".bits")
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(kind, bytearray(c.INVERSE_TURN.to_bytes(TABLE_BYTES, "little")))
    return table


def _fraction(b: Any, x: Any) -> tuple[Any, Any]:
    """x / (2 pi) less the nearest integer, as the sum of two doubles; |x| >= 1."""
    bits = b.bitcast(x, I64)
    e = b.sub(b.and_(b.lshr(bits, _i64(52)), _i64(0x7FF)), _i64(1023 + 52))
    m = b.or_(b.and_(bits, _i64(2**52 - 1)), _i64(2**52))
    start = b.sub(_i64(c.INVERSE_TURN_BITS - 256), e)  # of the 256 bits, from the lowest
    byte = b.lshr(b.add(start, _i64(7)), _i64(3))
    byte = b.and_(byte, _i64(127))  # an infinite x reads no further than the table
    place = b.gep(
        _table(b.module), [_i64(0), byte], source_etype=ir.ArrayType(ir.IntType(8), TABLE_BYTES)
    )
    window = b.load(place, typ=I256, align=1)
    shift = b.and_(b.sub(_i64(0), start), _i64(7))
    turn = b.mul(b.zext(b.shl(m, shift), I256), window)
    return _to_doubles(b, turn, b.icmp_signed("<", bits, _i64(0)))


def _to_doubles(b: Any, turn: Any, negative: Any) -> tuple[Any, Any]:
    """turn / 2^256, a signed fraction, as the sum of two doubles; negated if told."""
    below = b.icmp_signed("<", turn, _i256(0))
    size = b.select(below, b.neg(turn), turn)
    zeros = b.ctlz(size, ir.Constant(ir.IntType(1), 0))
    full = b.shl(size, zeros)
    upper = b.trunc(b.lshr(full, _i256(203)), I64)
    lower = b.trunc(b.and_(b.lshr(full, _i256(150)), _i256(2**53 - 1)), I64)
    biased = b.sub(ir.Constant(I64, 1023 - 53), b.trunc(zeros, I64))
    unit = b.bitcast(b.shl(biased, ir.Constant(I64, 52)), DOUBLE)
    signed = b.select(b.xor(below, negative), b.fneg(unit), unit)
    hi = b.fmul(b.uitofp(upper, DOUBLE), signed)
    lo = b.fmul(b.fmul(b.uitofp(lower, DOUBLE), ir.Constant(DOUBLE, 2.0**-53)), signed)
    return hi, lo
