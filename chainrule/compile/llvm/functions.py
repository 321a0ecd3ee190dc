"""What the functions of the loop language are in LLVM's words: one row for each.

Arguments have been converted to one dtype, and are vectors or single numbers alike. What is not in
the table is mathematics, which `chainrule.compile.mathlib` emits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.compile.llvm.numbers import (
    Builder,
    Value,
    constant,
    intrinsic,
    lanes_of,
    truth,
    type_of,
)


def _math(name: str, b: Builder, *xs: Value, made: Any = None) -> Value:
    from chainrule.compile import mathlib

    return mathlib.emit(name, b, *xs, target=b.module.target, made=made)


Row = Callable[[Builder, Any, list[Value]], Value]
"""(builder, dtype of the arguments, arguments) -> value."""


def _arithmetic(real: str, whole: str) -> Row:
    def row(b: Builder, d: Any, xs: list[Value]) -> Value:
        return getattr(b, real if d.kind == "f" else whole)(*xs)

    return row


def _logical(b: Builder, d: Any, xs: list[Value]) -> list[Value]:
    return [truth(b, d, x) for x in xs]


def _compare(sign: str) -> Row:
    def row(b: Builder, d: Any, xs: list[Value]) -> Value:
        if d.kind == "f":
            return (b.fcmp_unordered if sign == "!=" else b.fcmp_ordered)(sign, *xs)
        return (b.icmp_signed if d.kind == "i" else b.icmp_unsigned)(sign, *xs)

    return row


def _extremum(sign: str) -> Row:
    """The larger (or smaller) one; NaN if one of them is."""

    def row(b: Builder, d: Any, xs: list[Value]) -> Value:
        x, y = xs
        if d.kind != "f":
            best = _compare(sign)(b, d, [x, y])
            return b.select(best, x, y)
        best = b.select(b.fcmp_ordered(sign, x, y), x, y)
        return b.select(b.fcmp_unordered("uno", x, x), x, best)

    return row


def _unary(real: str) -> Row:
    def row(b: Builder, d: Any, xs: list[Value]) -> Value:
        return intrinsic(b, real, xs[0]) if d.kind == "f" else xs[0]

    return row


def _abs(b: Builder, d: Any, xs: list[Value]) -> Value:
    (x,) = xs
    if d.kind == "f":
        return intrinsic(b, "fabs", x)
    if d.kind != "i":
        return x
    zero = constant(0, d, lanes_of(x))
    return b.select(b.icmp_signed("<", x, zero), b.sub(zero, x), x)


def _neg(b: Builder, d: Any, xs: list[Value]) -> Value:
    return b.fneg(xs[0]) if d.kind == "f" else b.neg(xs[0])


def _relu(b: Builder, d: Any, xs: list[Value]) -> Value:
    return _extremum(">")(b, d, [xs[0], constant(0, d, lanes_of(xs[0]))])


def _strong_mul(b: Builder, d: Any, xs: list[Value]) -> Value:
    """g * d, and 0 wherever g is 0."""
    g, x = xs
    zero = constant(0, d, lanes_of(g))
    return b.select(_compare("==")(b, d, [g, zero]), zero, ROWS["mul"](b, d, [g, x]))


def _sign(b: Builder, d: Any, xs: list[Value]) -> Value:
    (x,) = xs
    lanes = lanes_of(x)
    one, zero, less = (constant(v, d, lanes) for v in (1, 0, -1 if d.kind != "u" else 1))
    up = b.select(_compare(">")(b, d, [x, zero]), one, zero)
    out = b.select(_compare("<")(b, d, [x, zero]), less, up)
    return b.select(b.fcmp_unordered("uno", x, x), x, out) if d.kind == "f" else out


def _isnan(b: Builder, d: Any, xs: list[Value]) -> Value:
    (x,) = xs
    if d.kind != "f":
        return constant(0, np.dtype(bool), lanes_of(x))
    return b.fcmp_unordered("uno", x, x)


def _isinf(b: Builder, d: Any, xs: list[Value]) -> Value:
    (x,) = xs
    if d.kind != "f":
        return constant(0, np.dtype(bool), lanes_of(x))
    return b.fcmp_ordered("==", _abs(b, d, [x]), constant(float("inf"), d, lanes_of(x)))


def _isfinite(b: Builder, d: Any, xs: list[Value]) -> Value:
    (x,) = xs
    if d.kind != "f":
        return constant(1, np.dtype(bool), lanes_of(x))
    if not lanes_of(x):  # of a single number LLVM would ask that in other registers
        return b.fcmp_ordered("==", b.fsub(x, x), constant(0.0, d))
    return b.fcmp_ordered("<", _abs(b, d, [x]), constant(float("inf"), d, lanes_of(x)))


def _signbit(b: Builder, d: Any, xs: list[Value]) -> Value:
    (x,) = xs
    lanes = lanes_of(x)
    if d.kind != "f":
        return _compare("<")(b, d, [x, constant(0, d, lanes)])
    whole = np.dtype(f"i{d.itemsize}")
    return b.icmp_signed("<", b.bitcast(x, type_of(whole, lanes)), constant(0, whole, lanes))


def _bits(b: Builder, d: Any, xs: list[Value]) -> Value:
    (x,) = xs
    return b.bitcast(x, type_of(np.dtype(f"u{d.itemsize}"), lanes_of(x)))


def _square(b: Builder, d: Any, xs: list[Value]) -> Value:
    return ROWS["mul"](b, d, [xs[0], xs[0]])


def _reciprocal(b: Builder, d: Any, xs: list[Value]) -> Value:
    return b.fdiv(constant(1, d, lanes_of(xs[0])), xs[0])


def _not(b: Builder, d: Any, xs: list[Value]) -> Value:
    return b.not_(truth(b, d, xs[0]))


def _whole(b: Builder, d: Any, xs: list[Value]) -> tuple[Value, Value]:
    """Quotient and remainder of integers as Python has them; 0 and 0 for a divisor of 0."""
    x, y = xs
    lanes = lanes_of(x)
    zero, one = constant(0, d, lanes), constant(1, d, lanes)
    none = b.icmp_signed("==", y, zero)
    safe = b.select(none, one, y)
    if d.kind == "u":
        q, r = b.udiv(x, safe), b.urem(x, safe)
    else:
        # the smallest number divided by -1 has no result and would trap
        minus = b.icmp_signed("==", y, constant(-1, d, lanes))
        safe = b.select(minus, one, safe)
        q, r = b.sdiv(x, safe), b.srem(x, safe)
        q = b.select(minus, b.sub(zero, x), q)
        r = b.select(minus, zero, r)
        off = b.and_(b.icmp_signed("!=", r, zero), b.icmp_signed("<", b.xor(r, y), zero))
        q = b.select(off, b.sub(q, one), q)
        r = b.select(off, b.add(r, y), r)
    return b.select(none, zero, q), b.select(none, zero, r)


def _floor_divide(b: Builder, d: Any, xs: list[Value]) -> Value:
    return _math("floor_divide", b, *xs) if d.kind == "f" else _whole(b, d, xs)[0]


def _remainder(b: Builder, d: Any, xs: list[Value]) -> Value:
    return _math("remainder", b, *xs) if d.kind == "f" else _whole(b, d, xs)[1]


def _shift(right: bool) -> Row:
    def row(b: Builder, d: Any, xs: list[Value]) -> Value:
        x, n = xs
        lanes = lanes_of(x)
        width = constant(8 * d.itemsize - 1, d, lanes)
        far = b.icmp_unsigned(">", n, width)
        near = b.select(far, width, n)
        if not right:
            return b.select(far, constant(0, d, lanes), b.shl(x, near))
        if d.kind == "i":
            return b.ashr(x, near)
        return b.select(far, constant(0, d, lanes), b.lshr(x, near))

    return row


def _power(b: Builder, d: Any, xs: list[Value]) -> Value:
    return _math("pow", b, *xs)


# fmt: off
ROWS: dict[str, Row] = {
    "add": _arithmetic("fadd", "add"), "sub": _arithmetic("fsub", "sub"),
    "mul": _arithmetic("fmul", "mul"), "div": _arithmetic("fdiv", "sdiv"),
    "neg": _neg, "positive": lambda b, d, xs: xs[0], "square": _square, "reciprocal": _reciprocal,
    "conj": lambda b, d, xs: xs[0], "strong_mul": _strong_mul, "pow": _power,
    "sqrt": _unary("sqrt"), "abs": _abs, "sign": _sign, "relu": _relu,
    "floor": _unary("floor"), "ceil": _unary("ceil"), "trunc": _unary("trunc"),
    "round": _unary("roundeven"),
    "maximum": _extremum(">"), "minimum": _extremum("<"),
    "at_least": _extremum(">"), "at_most": _extremum("<"),
    "equal": _compare("=="), "not_equal": _compare("!="),
    "less": _compare("<"), "less_equal": _compare("<="),
    "greater": _compare(">"), "greater_equal": _compare(">="),
    "logical_and": lambda b, d, xs: b.and_(*_logical(b, d, xs)),
    "logical_or": lambda b, d, xs: b.or_(*_logical(b, d, xs)),
    "logical_xor": lambda b, d, xs: b.xor(*_logical(b, d, xs)), "logical_not": _not,
    "bitwise_and": lambda b, d, xs: b.and_(*xs), "bitwise_or": lambda b, d, xs: b.or_(*xs),
    "bitwise_xor": lambda b, d, xs: b.xor(*xs), "bitwise_invert": lambda b, d, xs: b.not_(xs[0]),
    "bitwise_left_shift": _shift(right=False), "bitwise_right_shift": _shift(right=True),
    "isnan": _isnan, "isinf": _isinf, "isfinite": _isfinite, "signbit": _signbit,
    "bits": _bits,
    "floor_divide": _floor_divide, "remainder": _remainder,
}
# fmt: on


def call(b: Builder, name: str, dtype: Any, xs: list[Value], made: Any = None) -> Value:
    """The function `name` of `xs`, numbers of `dtype`; `made` is as for `mathlib.emit`."""
    return ROWS[name](b, dtype, xs) if name in ROWS else _math(name, b, *xs, made=made)
