"""From the table's formulas to Python source: how an op computes on plain numbers, without a call.

A row of the op table states its value on floats and its partial derivatives as functions. Each is
called once with symbols, which write down what is done to them; the expressions are then pasted
into a function of `Value`s. So a product costs what a product written out by hand costs, and still
the table is the only place that says what its derivative is.

Notation: `a b` the operands (Values, or numbers where a gradient does not flow), `x_a x_b` their
numbers, `y` the result's number, `d_a d_b` the partial derivatives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, final

from chainrule.engine.op import Op, kinds
from chainrule.errors import DtypeError, describe
from chainrule.ops.rows import Elementwise, rows
from chainrule.scalar.ieee import NUMERIC, ieee, limit


def _power(a: Any, b: Any) -> Any:
    y = a**b
    if y.imag:  # Python's negative ** fraction is complex; among real numbers it does not exist
        raise ValueError("a negative number to a fractional power")
    return y


def _divide(a: Any, b: Any) -> Any:
    return a * b**-1


VALUES: dict[str, Callable[..., Any]] = {"div": _divide, "pow": _power}
"""Rows whose value is computed as micrograd and microgpt do, so that numbers agree to the bit."""

MARKS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "relu": "ReLU"}
"""What `_op` says where micrograd has a word of its own."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """What made a Value: how to say it; whether it is singular; whether a constant came first;
    for a node that a user made by hand, its children and their local derivatives."""

    mark: str
    singular: bool = False
    turned: bool = False
    children: tuple[Any, ...] | None = None
    partials: Iterable[Any] = ()


PRODUCT = Made("*")
"""What made the product of two Values."""


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


def source_of(formula: Callable[..., Any], names: Sequence[str], otherwise: str = "") -> str:
    """The source of `formula` of `names`, or `otherwise` if it branches or calls what is no op."""
    try:
        return _text(formula(*map(Symbol, names)))
    except (TypeError, AttributeError):
        if otherwise:
            return otherwise
        raise


# --- The functions -------------------------------------------------------------------------------

# Lines that are `@name` are replaced by the block of that name. A fresh Value is made blank and
# filled in place: calling the class would cost as much as the rest.
_UNARY = """\
def of(a):
    x_a = a.data
    try:
        y = {y}
        d_a = {d_a}
    except NUMERIC:
        y, (d_a,) = beyond(ROW, x_a)
    @blank
    v._made = MADE; v._a = a; v._b = None; v._d_a = d_a; v._d_b = None
    return v
"""
_BINARY = """\
def of(a, b):
    x_a = a.data
    kind = b.__class__
    if kind is Value:
        x_b = b.data
        try:
            y = {y}
            d_a = {d_a}
            d_b = {d_b}
        except NUMERIC:
            y, (d_a, d_b) = beyond(ROW, x_a, x_b)
        @blank
        @grow
        v._made = MADE; v._a = a; v._b = b; v._d_a = d_a; v._d_b = d_b
        return v
    if kind is float or kind is int:
        x_b = b
    elif (x_b := number(b)) is None:
        return unknown(b)
    try:
        y = {y}
        d_a = {d_a}
    except NUMERIC:
        y, (d_a, _) = beyond(ROW, x_a, x_b)
    @blank
    v._made = MIXED; v._a = a; v._b = x_b; v._d_a = d_a; v._d_b = None
    return v
def turned(b, a):
    x_b = b.data
    kind = a.__class__
    if kind is float or kind is int:
        x_a = a
    elif (x_a := number(a)) is None:
        return unknown(a)
    try:
        y = {y}
        d_b = {d_b}
    except NUMERIC:
        y, (_, d_b) = beyond(ROW, x_a, x_b)
    @blank
    @start
    v._made = TURNED; v._a = b; v._b = x_a; v._d_a = d_b; v._d_b = None
    return v
"""
_BLANK = "v = new(Value); v.data = y; v._waits = 0; v._chain = None"
# A sum plus something goes on with the list of terms that the sum ends, or starts one, as the 0
# does with which Python's `sum` starts; the product of two Values is written into the list, and so
# is no node of the sum. See `walk.Sum`.
_GROW = """\
made = a._made
if made is SUMMED or made is MADE:
    if made is MADE or a._at != len(s := a._chain):
        s = sum_of(None, a)
    @add
    return v
"""
_START = """\
if kind is int and not a:
    s = sum_of(0)
    @add
    return v
"""
_ADD = """\
if b._made is PRODUCT and b._chain is None:
    b._chain = s; b._at = len(s)
    s += (b._a, b._d_a, b._b, b._d_b)
else:
    s += (b, d_b, None, x_b)
v._made = SUMMED; v._chain = s; v._at = len(s)
"""


def _paste(text: str, blocks: dict[str, str]) -> str:
    """`text` with each line `@name` replaced by the block of that name, at the line's depth."""
    out: list[str] = []
    for line in text.splitlines():
        depth = line[: len(line) - len(line.lstrip())]
        name = line.strip().removeprefix("@")
        out.append(indent(_paste(blocks[name], blocks), depth) if "@" in line else line)
    return "\n".join(out)


stand_ins: dict[type, Callable[[Any], float]] = {}
"""Classes whose objects stand for numbers, and how these are asked for theirs."""


def number(x: Any) -> float | None:
    """A Python number from one or from NumPy's scalars; None for what is no real number."""
    if isinstance(x, bool):
        return int(x)
    if isinstance(x, int | float):
        return x if x.__class__ is int or x.__class__ is float else x.__float__()
    if (known := stand_ins.get(x.__class__)) is not None:
        return known(x)
    np: Any = sys.modules.get("numpy")  # not loaded, it has made no number
    if np is None:
        return None
    if x.__class__ is np.bool_:
        return int(x)
    known = isinstance(x, np.number) and x.dtype.kind in "iuf" and x.dtype.itemsize <= 8
    return x.item() if known else None


def unknown(x: Any) -> Any:
    """NotImplemented, which lets Python ask `x`; for an array, which refuses Values, an error."""
    np: Any = sys.modules.get("numpy")
    if np is not None and isinstance(x, np.ndarray | np.generic):
        raise DtypeError(
            f"a Value meets Values and numbers, not {describe(x)}: write float(x) for one element, "
            "or use tensors"
        )
    return NotImplemented


def value_of(row: Elementwise) -> Callable[..., Any]:
    """How the row's value is computed from Python numbers."""
    return VALUES.get(row.label, row.scalar)


def beyond(row: Elementwise, *xs: float) -> tuple[float, list[float]]:
    """Value and partials where Python raises (1 / 0, log 0, overflow): what IEEE 754 says."""
    numbers = [ieee(x) for x in xs]
    try:
        y = ieee(value_of(row)(*xs))
    except NUMERIC:
        y = limit(row, *numbers)
    known: tuple[Any, ...] = (y, *numbers)
    partials = [float(p.formula(*[known[i] for i in p.reads])) for p in row.partials]
    return float(y), partials


def functions(
    row: Elementwise, space: dict[str, Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`of(a[, b])` for a Value `a`, and `turned(b, a)` for a Value `b` after a number `a`.

    `space` has the names that stand free in the templates and belong to `Value`.
    """
    names = ("a", "b")[: len(row.partials)]
    known = {1: "x_a", 2: "x_b", 0: "y"}
    inner = [f"x_{n}" for n in names]
    mark = MARKS.get(row.label, row.label)
    singular = any(p.singular for p in row.partials)
    made = PRODUCT if row.label == "mul" else Made(mark, singular)
    source = {
        "y": source_of(value_of(row), inner, otherwise=f"value({', '.join(inner)})"),
        **{
            f"d_{n}": source_of(p.formula, [known[i] for i in p.reads])
            for n, p in zip(names, row.partials, strict=True)
        },
    }
    free: dict[str, Any] = {label: r.scalar for label, r in rows.items()} | space
    free |= {"value": value_of(row), "new": object.__new__, "ROW": row, "NUMERIC": NUMERIC}
    free |= {"__name__": __name__, "beyond": beyond, "number": number, "unknown": unknown}
    free |= {"PRODUCT": PRODUCT, "MADE": made}
    free |= {"MIXED": Made(mark, singular), "TURNED": Made(mark, singular, turned=True)}
    sums = {"grow": _GROW, "start": _START} if row.label == "add" else {"grow": "", "start": ""}
    blocks = {"blank": _BLANK, "add": _ADD, **sums}
    text = _paste(_UNARY if len(names) == 1 else _BINARY, blocks).format(**source)
    exec(compile(text, f"<Value {row.label}>", "exec"), free)
    return free["of"], free.get("turned", free["of"])
