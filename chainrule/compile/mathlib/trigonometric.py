"""sin, cos, tan.

x = n pi / 2 + r with pi given to three parts; then sin or cos of r by n. For arguments beyond `FAR`
(rare: a jump) the remainder of 2 pi is taken in fixed point, to 256 bits, lane by lane (Payne &
Hanek, Radian reduction for trigonometric functions, SIGNUM Newsletter 18, 1983).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from chainrule.compile.mathlib.double_floats import (
    Two,
    constant,
    exactly,
    pick,
    product,
    quick_total,
    total,
)
from chainrule.compile.mathlib.evaluation import nearest, polynomial
from chainrule.compile.mathlib.lanes import Lanes
from chainrule.compile.mathlib.reals import Bits, Mask, Real
from chainrule.compile.target import Target
from chainrule.ops.values import coefficients as c

FAR = {32: 1e5, 64: 1e9}


def _less_multiple(x: Real, n: Real, unit: tuple[float, float, float]) -> Two:
    """x - n unit, where n is the nearest integer to x / unit."""
    near = (-n).fma(unit[0], x)
    if x.at.bits == 32:
        return exactly((-n).fma(unit[2], (-n).fma(unit[1], near)))
    p = product(n, x.lift(unit[1]))
    r = total(near, -p.hi)
    return Two(r.hi, (-n).fma(unit[2], r.lo - p.lo))


def sin_near_0(r: Two) -> Real:
    """sin(r), |r| <= pi / 4."""
    return r.hi + _sine_less(r)


def _sine_less(r: Two) -> Real:
    """sin(r) - r.hi."""
    z = r.hi * r.hi
    table = c.SIN_F32 if z.at.bits == 32 else c.SIN_F64
    tail = (r.hi * z) * polynomial(z, table)
    return tail + r.lo if z.at.bits == 64 else tail


def cos_near_0(r: Two) -> Real:
    """cos(r), |r| <= pi / 4."""
    z = r.hi * r.hi
    if z.at.bits == 32:
        return (z * z).fma(polynomial(z, c.COS_F32), z.fma(-0.5, 1.0))
    hi, lo = _cosine(r)
    return hi + lo


def _cosine(r: Two) -> tuple[Real, Real]:
    """Two parts of cos(r), the larger one first (float64)."""
    z = r.hi * r.hi
    half = 0.5 * z
    s = quick_total(z.lift(1.0), -half)
    square = (-r.hi).fma(r.lo, s.lo)  # cos(hi + lo) is cos(hi) - hi lo
    return s.hi, (z * z).fma(polynomial(z, c.COS_F64), square)


def _circular(x: Real, more: Real | None, quarters: int) -> Real:
    """sin(x + quarters pi / 2)."""
    k, r = _reduce(x, more)
    k = k + quarters
    odd = (k & 1).equal(1)
    y = odd.where(cos_near_0(r), sin_near_0(r))
    return (y.bits() ^ ((k & 2) << (x.at.bits - 2))).real()


def _reduce(x: Real, more: Real | None) -> tuple[Bits, Two]:
    """n and r of x + more = n pi / 2 + r."""
    pi = c.PI_F32 if x.at.bits == 32 else c.PI
    n, k = nearest(x, 2 / c.PI[0])
    r = _less_multiple(x, n, (pi[0] / 2, pi[1] / 2, pi[2] / 2))
    return k, r if more is None else total(r.hi, r.lo + more)


def sin_and_cos(x: Real, more: Real | None) -> tuple[Two, Two]:
    """The sine and the cosine of x + more, |x| <= FAR, to some bits more than a float64 has."""
    k, r = _reduce(x, more)
    s, c = quick_total(r.hi, _sine_less(r)), quick_total(*_cosine(r))
    odd = (k & 1).equal(1)
    sine, cosine = pick(odd, c, s), pick(odd, s, c)
    return (
        pick((k & 2).equal(2), -sine, sine),
        pick((k + 1 & 2).equal(2), -cosine, cosine),
    )


def _sin(x: Real, more: Real | None) -> Real:
    return x.same(0.0).where(x, _circular(x, more, 0))


def _cos(x: Real, more: Real | None) -> Real:
    return _circular(x, more, 1)


def tan_near_0(r: Two) -> Two:
    """tan(r), |r| <= pi / 4 (float64)."""
    z = product(r.hi, r.hi)
    cube = product(r.hi, z.hi)
    tail = product(cube.hi, polynomial(z.hi, c.TAN_F64))
    more = (cube.lo + r.hi * z.lo).fma(1 / 3, z.hi.fma(r.lo, r.lo))
    return quick_total(r.hi, tail.hi + (tail.lo + more))


def _tan(x: Real, more: Real | None) -> Real:
    k, r = _reduce(x, more)
    t = tan_near_0(r)
    y = (k << (x.at.bits - 1)).equal(0).where(t.value(), (exactly(x.lift(-1.0)) / t).value())
    return x.same(0.0).where(x, y)


def anywhere(near: Callable[[Real, Real | None], Real], x: Real) -> Real:
    """The function of period 2 pi, whose value at moderate x + more is `near(x, more)`."""
    y = near(x, None)

    def body() -> Real:
        if x.at.bits == 32:
            return anywhere(near, x.widened()).narrowed()
        rest = _reduce_huge(x)
        return near(rest.hi, rest.lo)

    return x.at.rarely(_far(x), body, y)


def _far(x: Real) -> Mask:
    return abs(x) > FAR[x.at.bits]


def _reduce_huge(x: Real) -> Two:
    """x less a multiple of 2 pi, for every lane (float64)."""
    at, builder = x.at, x.at.builder
    if not at.width:
        return Two(*(Real(at, v) for v in remainder_two_pi(builder, x.v, at.target)))
    hi, lo = x.v, at.real(0.0).v
    for i in range(at.width):
        place = ir.Constant(ir.IntType(32), i)
        parts = remainder_two_pi(builder, builder.extract_element(x.v, place), at.target)
        hi = builder.insert_element(hi, parts[0], place)
        lo = builder.insert_element(lo, parts[1], place)
    return Two(Real(at, hi), Real(at, lo))


def sin(x: Real) -> Real:
    """The sine."""
    return anywhere(_sin, x)


def cos(x: Real) -> Real:
    """The cosine."""
    return anywhere(_cos, x)


def tan(x: Real) -> Real:
    """The tangent (float64)."""
    return anywhere(_tan, x)


# --- arguments that are large ---------------------------------------------------------------------
# x = m 2^e with an integer m. Of 1 / (2 pi) only 256 bits matter to x / (2 pi): those above are
# whole turns, those below are too small. They are read as one integer; their product with m,
# modulo 2^256, is the fraction of a turn. No float64 comes closer than about 2^-60 to a multiple
# of pi, so well over 100 bits of it are good.

I64, I256, DOUBLE = ir.IntType(64), ir.IntType(256), ir.DoubleType()
NAME = "chainrule.remainder_of_turn"
TABLE_BYTES = 200


def _i64(n: int) -> Any:
    return ir.Constant(I64, n)


def _i256(n: int) -> Any:
    return ir.Constant(I256, n)


def remainder_two_pi(builder: Any, x: Any, target: Target) -> tuple[Any, Any]:
    """Writes a call: x (a double) less a multiple of 2 pi, as the sum of two doubles."""
    module = builder.module
    function = module.globals.get(NAME) or _define(module, target)
    pair = builder.call(function, [x])
    return builder.extract_value(pair, 0), builder.extract_value(pair, 1)


def _define(module: Any, target: Target) -> Any:
    """The function that gives the sine and the cosine of the remainder of large arguments."""
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
