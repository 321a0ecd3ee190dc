"""What the functions of the loop language are in LLVM's words: one row for each.

Arguments have been converted to one dtype, and are vectors or single numbers alike. What is not in
the table is mathematics, which `chainrule.compile.mathlib` emits.
"""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

Value = Any
Builder = Any
I1, I8, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(64)
_FLOATS: dict[str, Any] = {"e": ir.HalfType(), "f": ir.FloatType(), "d": ir.DoubleType()}


def type_of(dtype: Any, lanes: int = 0) -> Any:
    """LLVM's type of a number of `dtype` in a register; of so many if `lanes`."""
    kind = dtype.kind
    if kind == "f":
        one = _FLOATS[dtype.char] if dtype.char in _FLOATS else _FLOATS["d"]
    else:
        one = I1 if kind == "b" else ir.IntType(8 * dtype.itemsize)
    return ir.VectorType(one, lanes) if lanes else one


def in_memory(dtype: Any, lanes: int = 0) -> Any:
    """LLVM's type of it in memory, where a bool is a byte."""
    if dtype.kind != "b":
        return type_of(dtype, lanes)
    return ir.VectorType(I8, lanes) if lanes else I8


def lanes_of(v: Value) -> int:
    """How many numbers `v` is, 0 if it is a single one."""
    return v.type.count if isinstance(v.type, ir.VectorType) else 0


def constant(value: Any, dtype: Any, lanes: int = 0) -> Value:
    """The number `value`."""
    one = type_of(dtype)
    if dtype.kind == "b":
        value = int(bool(value))
    c = ir.Constant(one, float(value) if dtype.kind == "f" else int(value))
    return ir.Constant(ir.VectorType(one, lanes), [c] * lanes) if lanes else c


def splat(b: Builder, v: Value, lanes: int) -> Value:
    """`v` in every lane."""
    if lanes_of(v) or not lanes:
        return v
    if isinstance(v, ir.Constant):
        return ir.Constant(ir.VectorType(v.type, lanes), [v] * lanes)
    vector = ir.VectorType(v.type, lanes)
    first = b.insert_element(ir.Constant(vector, ir.Undefined), v, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return b.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def intrinsic(b: Builder, name: str, *args: Value, fastmath: tuple[str, ...] = ()) -> Value:
    """Call LLVM's own function `name`, whose type is that of its first argument."""
    t = args[0].type
    f = declare(b, f"llvm.{name}.{suffix(t)}", t, [a.type for a in args])
    return b.call(f, args, fastmath=fastmath)


def declare(b: Builder, name: str, result: Any, args: list[Any]) -> Any:
    """The external function `name` of this module."""
    module = b.module
    if name in module.globals:
        return module.globals[name]
    return ir.Function(module, ir.FunctionType(result, args), name)


def suffix(t: Any) -> str:
    """How LLVM writes a type in a function's name."""
    if isinstance(t, ir.VectorType):
        return f"v{t.count}{suffix(t.element)}"
    if isinstance(t, ir.PointerType):
        return "p0"
    if isinstance(t, ir.IntType):
        return f"i{t.width}"
    return {"half": "f16", "float": "f32", "double": "f64"}[str(t)]


def _math(name: str, b: Builder, *xs: Value) -> Value:
    from chainrule.compile import mathlib

    return mathlib.emit(name, b, *xs)


def _names() -> set[str]:
    from chainrule.compile import mathlib

    return mathlib.names()


Row = Callable[[Builder, Any, list[Value]], Value]
"""(builder, dtype of the arguments, arguments) -> value."""


def _arithmetic(real: str, whole: str) -> Row:
    def row(b: Builder, d: Any, xs: list[Value]) -> Value:
        return getattr(b, real if d.kind == "f" else whole)(*xs)

    return row


def _logical(b: Builder, d: Any, xs: list[Value]) -> list[Value]:
    return [_truth(b, d, x) for x in xs]


def _truth(b: Builder, d: Any, x: Value) -> Value:
    """Whether `x` is not 0; NaN is not."""
    if d.kind == "b":
        return x
    zero = constant(0, d, lanes_of(x))
    return b.fcmp_unordered("!=", x, zero) if d.kind == "f" else b.icmp_signed("!=", x, zero)


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
    return b.fcmp_ordered("<", _abs(b, d, [x]), constant(float("inf"), d, lanes_of(x)))


def _signbit(b: Builder, d: Any, xs: list[Value]) -> Value:
    (x,) = xs
    lanes = lanes_of(x)
    if d.kind != "f":
        return _compare("<")(b, d, [x, constant(0, d, lanes)])
    whole = np.dtype(f"i{d.itemsize}")
    return b.icmp_signed("<", b.bitcast(x, type_of(whole, lanes)), constant(0, whole, lanes))


def _square(b: Builder, d: Any, xs: list[Value]) -> Value:
    return ROWS["mul"](b, d, [xs[0], xs[0]])


def _reciprocal(b: Builder, d: Any, xs: list[Value]) -> Value:
    return b.fdiv(constant(1, d, lanes_of(xs[0])), xs[0])


def _not(b: Builder, d: Any, xs: list[Value]) -> Value:
    return b.not_(_truth(b, d, xs[0]))


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
    return _real("floor_divide", b, d, xs) if d.kind == "f" else _whole(b, d, xs)[0]


def _remainder(b: Builder, d: Any, xs: list[Value]) -> Value:
    return _real("remainder", b, d, xs) if d.kind == "f" else _whole(b, d, xs)[1]


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
    return _real("pow", b, d, xs)


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
    "floor_divide": _floor_divide, "remainder": _remainder,
}
# fmt: on


def known(name: str, dtype: Any) -> bool:
    """Whether the function `name` can be emitted for arguments of `dtype`."""
    if name in ROWS:
        return dtype.kind == "f" or name not in ("pow", "sqrt", "reciprocal")
    return dtype.kind == "f" and name in _names()


def call(b: Builder, name: str, dtype: Any, xs: list[Value]) -> Value:
    """The function `name` of `xs`, numbers of `dtype`."""
    return ROWS[name](b, dtype, xs) if name in ROWS else _real(name, b, dtype, xs)


def _real(name: str, b: Builder, dtype: Any, xs: list[Value]) -> Value:
    """Mathematics; of half precision in float32, which is how NumPy does it."""
    if dtype.char != "e":
        return _math(name, b, *xs)
    wide = [b.fpext(x, type_of(np.dtype(np.float32), lanes_of(x))) for x in xs]
    return b.fptrunc(_math(name, b, *wide), xs[0].type)


def cast(b: Builder, v: Value, old: Any, new: Any) -> Value:
    """`v` converted as NumPy's `astype` does."""
    if old == new:
        return v
    to = type_of(new, lanes_of(v))
    if new.kind == "b":
        return _truth(b, old, v)
    if old.kind == "f" and new.kind == "f":
        return b.fptrunc(v, to) if old.itemsize > new.itemsize else b.fpext(v, to)
    if old.kind == "f":
        return b.fptosi(v, to) if new.kind == "i" else b.fptoui(v, to)
    if new.kind == "f":
        return b.sitofp(v, to) if old.kind == "i" else b.uitofp(v, to)
    if old.kind == "b" or (new.itemsize > old.itemsize and old.kind == "u"):
        return b.zext(v, to)
    if new.itemsize > old.itemsize:
        return b.sext(v, to)
    return b.trunc(v, to) if new.itemsize < old.itemsize else v
