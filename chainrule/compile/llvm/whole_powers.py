"""Powers whose exponent is a whole number, of single float64 numbers: by squares.

    x^n = product of x^(2^i) over the ones in n

As one long chain of operations `mathlib`'s power takes four times as long. Each factor is a sum
hi + lo of two numbers, so that up to the last sum some 2^-80 is lost. Exponents from `MOST` on, and
results near the ends of what there is, are left to the power for any exponent.
"""

from __future__ import annotations

from llvmlite import ir

from chainrule.compile.llvm.function_calls import call
from chainrule.compile.llvm.numbers import I64, Builder, Value, intrinsic
from chainrule.compile.loops.expressions import Expr

MOST, SMALLEST, LARGEST = 1 << 20, 2.0**-900, 2.0**900
_NAME = "chainrule.whole_power"
_F64 = ir.DoubleType()
_Two = tuple[Value, Value]


def whole_exponent(e: Expr) -> Expr | None:
    """The int64 that the second argument of a power of float64 is; None if it is something else."""
    exponent = e.of[2]
    if e.dtype.name != "float64" or exponent.kind != "fn" or exponent.of[0] != "cast":
        return None
    return exponent.of[1] if exponent.of[1].dtype.name == "int64" else None


def whole_power(b: Builder, x: Value, n: Value) -> Value:
    """x^n, float64 and int64, for a target with fused multiply-add."""
    f = b.module.globals.get(_NAME)
    if f is None:
        f = ir.Function(b.module, ir.FunctionType(_F64, [_F64, I64]), _NAME)
        f.linkage = "internal"
        f.attributes.add("noinline")
        f.attributes.add("nounwind")
        _write(f)
    return b.call(f, [x, n])


def _write(f: ir.Function) -> None:
    """Write the function's body: a square for each bit of the exponent, in twice the digits."""
    names = ("entry", "head", "factor", "done", "inside", "other")
    entry, head, factor, done, inside, other = map(f.append_basic_block, names)
    x, n = f.args
    b = ir.IRBuilder(entry)
    b.cbranch(b.icmp_unsigned("<", n, ir.Constant(I64, MOST)), head, other)

    b.position_at_end(head)
    left = b.phi(I64)
    y, power = (b.phi(_F64), b.phi(_F64)), (b.phi(_F64), b.phi(_F64))
    b.cbranch(b.icmp_unsigned("!=", left, ir.Constant(I64, 0)), factor, done)

    b.position_at_end(factor)
    odd = b.trunc(left, ir.IntType(1))
    more = [b.select(odd, new, old) for new, old in zip(_product(b, y, power), y, strict=True)]
    square = _square(b, power)
    half = b.lshr(left, ir.Constant(I64, 1))
    b.branch(head)
    zero, one = ir.Constant(_F64, 0.0), ir.Constant(_F64, 1.0)
    states = [(left, n, half), *zip(y, (one, zero), more, strict=True)]
    for phi, first, later in [*states, *zip(power, (x, zero), square, strict=True)]:
        phi.add_incoming(first, entry)
        phi.add_incoming(later, factor)

    b.position_at_end(done)
    total = b.fadd(*y)
    size = intrinsic(b, "fabs", total)
    low = b.fcmp_ordered(">", size, ir.Constant(_F64, SMALLEST))
    b.cbranch(b.and_(low, b.fcmp_ordered("<", size, ir.Constant(_F64, LARGEST))), inside, other)
    ir.IRBuilder(inside).ret(total)
    b.position_at_end(other)
    b.ret(call(b, "pow", [x, b.sitofp(n, _F64)]))


def _square(b: Builder, x: _Two) -> _Two:
    """The square, but for that of the small part: the next one waits for one operation of it."""
    hi = b.fmul(x[0], x[0])
    lo = intrinsic(b, "fma", x[0], x[0], b.fneg(hi))
    return hi, intrinsic(b, "fma", b.fadd(x[0], x[0]), x[1], lo)


def _product(b: Builder, x: _Two, y: _Two) -> _Two:
    """The product of two sums, but for that of their small parts."""
    hi = b.fmul(x[0], y[0])
    lo = intrinsic(b, "fma", x[0], y[0], b.fneg(hi))
    lo = intrinsic(b, "fma", x[0], y[1], lo)
    return hi, intrinsic(b, "fma", x[1], y[0], lo)
