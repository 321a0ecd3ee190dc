"""From the table's formulas to Python source: how an op computes on plain numbers, without a call.

A row of the op table states its value on floats and its partial derivatives as functions. Each is
called once with symbols, which write down what is done to them; the expressions are then pasted
into a function of `Value`s. So a product costs what a product written out by hand costs, and still
the table is the only place that says what its derivative is.

Notation: `a b` the operands (Values, or numbers where a gradient does not flow), `x_a x_b` their
numbers, `y` the result's number, `d_a d_b` the partial derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.graph import kinds
from chainrule.op import Op
from chainrule.ops.families import Elementwise, rows


def _power(a: Any, b: Any) -> Any:
    y = a**b
    if y.imag:  # Python's negative ** fraction is complex; among real numbers it does not exist
        raise ValueError("a negative number to a fractional power")
    return y


VALUES: dict[str, Callable[..., Any]] = {"div": lambda a, b: a * b**-1, "pow": _power}
"""Rows whose value is computed as micrograd and microgpt do, so that numbers agree to the bit."""

MARKS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "relu": "ReLU"}
"""What `_op` says where micrograd has a word of its own."""


@final
@dataclass(frozen=True, slots=True)
class Made:
    """What made a Value: the row, how to say it, whether the constant came first."""

    row: Elementwise
    mark: str
    singular: bool
    turned: bool


@final
class Symbol:
    """Stands for a number and writes down, as Python source, what is computed from it."""

    __slots__ = ("text",)
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, text: str) -> None:
        self.text = text

    # fmt: off
    def __add__(self, b: Any) -> Symbol: return _infix(self, "+", b)
    def __radd__(self, a: Any) -> Symbol: return _infix(a, "+", self)
    def __sub__(self, b: Any) -> Symbol: return _infix(self, "-", b)
    def __rsub__(self, a: Any) -> Symbol: return _infix(a, "-", self)
    def __mul__(self, b: Any) -> Symbol: return _infix(self, "*", b)
    def __rmul__(self, a: Any) -> Symbol: return _infix(a, "*", self)
    def __truediv__(self, b: Any) -> Symbol: return _infix(self, "/", b)
    def __rtruediv__(self, a: Any) -> Symbol: return _infix(a, "/", self)
    def __floordiv__(self, b: Any) -> Symbol: return _infix(self, "//", b)
    def __mod__(self, b: Any) -> Symbol: return _infix(self, "%", b)
    def __pow__(self, b: Any) -> Symbol: return _infix(self, "**", b)
    def __rpow__(self, a: Any) -> Symbol: return _infix(a, "**", self)
    def __lt__(self, b: Any) -> Symbol: return _infix(self, "<", b)
    def __le__(self, b: Any) -> Symbol: return _infix(self, "<=", b)
    def __gt__(self, b: Any) -> Symbol: return _infix(self, ">", b)
    def __ge__(self, b: Any) -> Symbol: return _infix(self, ">=", b)
    def __eq__(self, b: Any) -> Any: return _infix(self, "==", b)
    def __neg__(self) -> Symbol: return Symbol(f"(-{self.text})")
    # fmt: on

    def __bool__(self) -> bool:
        raise TypeError("a formula with a branch cannot be written down")


def _text(x: Any) -> str:
    return x.text if isinstance(x, Symbol) else repr(x)


def _infix(a: Any, sign: str, b: Any) -> Symbol:
    return Symbol(f"({_text(a)} {sign} {_text(b)})")


def _call(op: Op, *xs: Any) -> Symbol:
    return Symbol(f"{op.name}({', '.join(map(_text, xs))})")


kinds[Symbol] = _call


def written(formula: Callable[..., Any], names: Sequence[str], otherwise: str = "") -> str:
    """The source of `formula` of `names`, or `otherwise` if it branches or calls what is no op."""
    try:
        return _text(formula(*map(Symbol, names)))
    except (TypeError, AttributeError):
        if otherwise:
            return otherwise
        raise


# --- The functions -------------------------------------------------------------------------------

# A fresh Value is made blank and filled in place: calling the class would cost as much as the rest.
_UNARY = """\
def of(a):
    x_a = a.data
    try:
        y = {y}
        d_a = {d_a}
    except NUMERIC:
        y, (d_a,) = ieee(ROW, x_a)
    v = new(Value)
    v.data = y; v.grad = 0; v._a = a; v._b = None; v._d_a = d_a; v._d_b = None
    v._waits = 0; v._made = MADE
    return v
"""
_BINARY = """\
def of(a, b):
    x_a = a.data
    if b.__class__ is Value:
        x_b = b.data
        try:
            y = {y}
            d_a = {d_a}
            d_b = {d_b}
        except NUMERIC:
            y, (d_a, d_b) = ieee(ROW, x_a, x_b)
    else:
        if b.__class__ is float or b.__class__ is int:
            x_b = b
        elif (x_b := number(b)) is None:
            return NotImplemented
        try:
            y = {y}
            d_a = {d_a}
        except NUMERIC:
            y, (d_a, _) = ieee(ROW, x_a, x_b)
        d_b = None; b = x_b
    v = new(Value)
    v.data = y; v.grad = 0; v._a = a; v._b = b; v._d_a = d_a; v._d_b = d_b
    v._waits = 0; v._made = MADE
    return v
def turned(b, a):
    x_b = b.data
    if (x_a := number(a)) is None:
        return NotImplemented
    try:
        y = {y}
        d_b = {d_b}
    except NUMERIC:
        y, (_, d_b) = ieee(ROW, x_a, x_b)
    v = new(Value)
    v.data = y; v.grad = 0; v._a = b; v._b = x_a; v._d_a = d_b; v._d_b = None
    v._waits = 0; v._made = TURNED
    return v
"""


def number(x: Any) -> float | None:
    """A Python number from one or from NumPy's scalars; None for what is no real number."""
    if isinstance(x, bool | np.bool_):
        return int(x)
    if isinstance(x, int | float):
        return x if x.__class__ is int or x.__class__ is float else x.__float__()
    return x.item() if isinstance(x, np.integer | np.floating) else None  # pyright: ignore


def value_of(row: Elementwise) -> Callable[..., Any]:
    """How the row's value is computed from Python numbers."""
    return VALUES.get(row.label, row.scalar)


def ieee(row: Elementwise, *xs: float) -> tuple[float, list[float]]:
    """Value and partials where Python raises (1 / 0, log 0, overflow): what IEEE 754 says.

    Done by NumPy's float64, whose arithmetic does not raise; slow, but rare.
    """
    with np.errstate(all="ignore"):
        floats = [np.float64(x) for x in xs]
        try:
            y = value_of(row)(*xs)
        except NUMERIC:
            y = row.fn(*floats)
        known: tuple[Any, ...] = (np.float64(y), *floats)
        partials = [float(p.formula(*[known[i] for i in p.reads])) for p in row.partials]
    return float(known[0]), partials


NUMERIC = (ArithmeticError, ValueError)
"""What Python raises where IEEE 754 has an infinity or NaN for an answer."""


def functions(row: Elementwise, value: type) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`of(a[, b])` for a Value `a`, and `turned(b, a)` for a Value `b` after a number `a`."""
    names = ("a", "b")[: len(row.partials)]
    known = {1: "x_a", 2: "x_b", 0: "y"}
    inner = [f"x_{n}" for n in names]
    source = {
        "y": written(value_of(row), inner, otherwise=f"value({', '.join(inner)})"),
        **{
            f"d_{n}": written(p.formula, [known[i] for i in p.reads])
            for n, p in zip(names, row.partials, strict=True)
        },
    }
    mark = MARKS.get(row.label, row.label)
    singular = any(p.singular for p in row.partials)
    space: dict[str, Any] = {label: r.scalar for label, r in rows.items()}
    space |= {"value": value_of(row), "new": object.__new__, "Value": value, "ROW": row}
    space |= {"NUMERIC": NUMERIC, "ieee": ieee, "number": number}
    space |= {"MADE": Made(row, mark, singular, False), "TURNED": Made(row, mark, singular, True)}
    text = _UNARY if len(names) == 1 else _BINARY
    exec(compile(text.format(**source), f"<Value {row.label}>", "exec"), space)
    return space["of"], space.get("turned", space["of"])
