"""What a recording asks of ints, and computes of them, as a kernel.

The source of a check (`ints.symbolic`) becomes expressions of int64 and float64. Python's ints have
no end, so all intermediate results have to fit into 64 bits: ints that are computed with may be
within 32 bits, and bounds are followed from there. Where a condition fails nothing else runs, but
the kernel itself runs to its end: indices into tables are brought into their bounds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Exprs, Local
from chainrule.compile.loops.statements import Let, Stmt, Store
from chainrule.compile.scalars.ints.symbolic import Check, source_of
from chainrule.errors import TraceError

INT, F64 = np.dtype(np.int64), np.dtype(np.float64)
WIDE: Final = 2**63
"""An int64 is below it."""
WITHIN: Final = 2**31
"""Ints that are computed with are at most so large."""
BITS: Final = 62
"""Conditions that have a bit of their own."""
_AT_ONCE = 8
"""Conditions in one statement."""
_WIDTH = 90
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
    ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip
_WHOLE: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("add", "+"), ast.Sub: ("sub", "-"), ast.Mult: ("mul", "*"),
    ast.FloorDiv: ("floor_divide", "//"), ast.Mod: ("remainder", "%"),
}  # fmt: skip
_REAL: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow",
}  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class _Number:
    """An expression; of an int the bounds that it is within; how a person writes it."""

    e: Expr
    low: int
    high: int
    text: str


@final
@dataclass(frozen=True, slots=True)
class Decided:
    """What ints decide: statements that compute it, what each condition says, the indices, counts
    and scalars of `Steps.compiled` as expressions."""

    body: Sequence[Stmt]
    checks: Sequence[str]
    found: Sequence[Expr]


@final
class Conditions:
    """The source of a check as it is being translated, for the function `what` and int64 numbers
    that are loaded so, each with its name."""

    def __init__(
        self,
        what: str,
        check: Check,
        ints: Sequence[tuple[Expr, str]],
        make: Exprs,
        outside: Buffer,
    ) -> None:
        self._what = what
        self._make = make
        self._outside = outside
        self._ints = [_Number(e, -WIDE, WIDE - 1, name) for e, name in ints]
        self._known: dict[str, _Number] = {}
        self._body: list[Stmt] = []
        self._failing: list[tuple[Expr, str]] = []
        """Of each condition the negation, and what it says."""
        self._bounded: dict[int, _Number] = {}
        source, self._tables = source_of(check)
        self._returned: list[_Number] = []
        (function,) = ast.parse(source).body
        assert isinstance(function, ast.FunctionDef)
        for s in function.body:
            self._statement(s)

    def decided(self) -> Decided:
        """All of it."""
        for n in range(len(self._failing) - 1, -1, -_AT_ONCE):
            first = max(0, n + 1 - _AT_ONCE)
            e = self._make.load(self._outside, Affine())
            for i in range(n, first - 1, -1):
                bit = self._make.lit(1 << min(i, BITS - 1), INT)
                e = self._make.fn("where", self._failing[i][0], bit, e)
            self._body.append(Store(self._outside, Affine(), e))
        words = [f"this program is for ints with {text}" for _, text in self._failing]
        if len(words) > BITS:
            words[BITS - 1 :] = [f"ints do not meet one of {len(words) - BITS + 1} more conditions"]
        start = Store(self._outside, Affine(), self._make.lit(0, INT))
        return Decided([start, *self._body], words, [x.e for x in self._returned])

    def _statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                x = self._number(value)
                local = Local(name, x.e.dtype)
                self._body.append(Let(local, x.e))
                self._known[name] = _Number(self._make.local(local), x.low, x.high, x.text)
            case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=wanted)):
                e, text = self._truth(wanted)
                self._require(e, text)
            case ast.Return(value=ast.Tuple(elts=found)):
                self._returned = [self._number(x) for x in found]
            case _:
                raise AssertionError(f"{ast.unparse(s)} is no statement of a check")

    def _require(self, e: Expr, text: str) -> None:
        text = text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
        self._failing.append((self._make.fn("logical_not", e), text))

    # --- conditions

    def _truth(self, x: ast.expr) -> tuple[Expr, str]:
        """A condition as a bool, and how a person writes it."""
        match x:
            case ast.UnaryOp(op=ast.Not(), operand=y):
                if isinstance(y, ast.Compare) and len(y.ops) == 1:
                    a, b = self._number(y.left), self._number(y.comparators[0])
                    return self._compared(a, _opposite(y.ops[0]), b)
                e, text = self._truth(y)
                return self._make.fn("logical_not", e), f"not {text}"
            case ast.Compare(left=left, ops=signs, comparators=rest):
                xs = [self._number(y) for y in (left, *rest)]
                found = [
                    self._compared(a, sign, b)
                    for a, sign, b in zip(xs[:-1], signs, xs[1:], strict=True)
                ]
                e = None
                for one, _ in found:
                    e = self._make.both(e, one)
                assert e is not None
                middle = [t.removeprefix(a.text) for (_, t), a in zip(found, xs, strict=False)]
                return e, xs[0].text + "".join(middle)
            case _:
                y = self._number(x)
                zero = self._make.lit(0, y.e.dtype)
                return self._make.fn("not_equal", y.e, zero), f"{y.text} != 0"

    def _compared(self, a: _Number, sign: ast.cmpop, b: _Number) -> tuple[Expr, str]:
        if F64 in (a.e.dtype, b.e.dtype):
            a, b = self._real(a), self._real(b)
        text = f"{a.text} {_SIGNS[type(sign)]} {b.text}"
        return self._make.fn(_COMPARED[type(sign)], a.e, b.e), text

    # --- numbers

    def _number(self, x: ast.expr) -> _Number:
        """An expression of Python's as a number; raises `TraceError` if C has none like it."""
        match x:
            case ast.Name(id=name):
                return self._known[name]
            case ast.Constant(value=value):
                return self._constant(value)
            case ast.Subscript(value=ast.Name(id="a"), slice=ast.Constant(value=int(i))):
                return self._ints[i]
            case ast.Subscript(value=ast.Name(id=name), slice=at):
                return self._entry(self._tables[name], self._number(at))
            case ast.Subscript(value=ast.Tuple(elts=entries), slice=at):
                return self._one_of([self._number(y) for y in entries], self._number(at))
            case ast.UnaryOp(op=ast.USub(), operand=y):
                return self._negative(self._number(y))
            case ast.Call(func=ast.Name(id="float"), args=[y]):
                return self._real(self._number(y))
            case ast.BinOp(left=a, op=sign, right=b):
                return self._operation(self._number(a), type(sign), self._number(b))
            case _:
                raise self._refused(ast.unparse(x))

    def _refused(self, text: str) -> TraceError:
        return TraceError(
            f"{self._what}: {text} may need more than 64 bits, which ints of Python have and those "
            "of C have not: compute it outside, and hand over the result"
        )

    def _constant(self, value: Any) -> _Number:
        if isinstance(value, float):
            return _Number(self._make.lit(value, F64), 0, 0, repr(value))
        if not -WIDE <= value < WIDE:
            raise self._refused(str(value))
        return _Number(self._make.lit(int(value), INT), int(value), int(value), str(int(value)))

    def _real(self, x: _Number) -> _Number:
        """An int as a float."""
        if x.e.dtype == F64:
            return x
        if x.e.kind == "lit" and int(float(x.low)) != x.low:
            raise self._refused(x.text)
        return _Number(self._make.cast(x.e, F64), 0, 0, x.text)

    def _narrow(self, x: _Number) -> _Number:
        """An int that is computed with: an argument is brought into 32 bits, where it has to be."""
        if x not in self._ints:
            return x
        i = self._ints.index(x)
        if i not in self._bounded:
            low, high = self._make.lit(-WITHIN, INT), self._make.lit(WITHIN, INT)
            e = self._make.fn("minimum", self._make.fn("maximum", x.e, low), high)
            local = Local(f"n{i}", INT)
            self._body.append(Let(local, e))
            inner = self._make.local(local)
            self._bounded[i] = _Number(inner, -WITHIN, WITHIN, x.text)
            text = f"-{WITHIN} <= {x.text} <= {WITHIN}"
            self._require(self._make.fn("equal", x.e, inner), text)
        return self._bounded[i]

    def _negative(self, x: _Number) -> _Number:
        if x.e.dtype == F64:
            return _Number(self._make.fn("neg", x.e), 0, 0, f"-{x.text}")
        x = self._narrow(x)
        return self._within(self._make.fn("neg", x.e), (-x.high, -x.low), f"-{x.text}")

    def _within(self, e: Expr, ends: Sequence[int], text: str) -> _Number:
        low, high = min(ends), max(ends)
        if low < -WIDE or high >= WIDE:
            raise self._refused(text)
        return _Number(e, low, high, text)

    def _operation(self, a: _Number, sign: type[ast.operator], b: _Number) -> _Number:
        """An operation of two numbers, ints within bounds that 64 bits hold."""
        if F64 in (a.e.dtype, b.e.dtype):
            return self._floats(self._real(a), sign, self._real(b))
        a, b = self._narrow(a), self._narrow(b)
        name, written = _WHOLE[sign]
        text = f"({a.text} {written} {b.text})"
        if name in ("floor_divide", "remainder"):
            if b.low <= 0 <= b.high:
                zero = self._make.lit(0, INT)
                self._require(self._make.fn("not_equal", b.e, zero), f"{b.text} != 0")
            most = max(abs(b.low), abs(b.high))
            ends = [-most, most] if b.low < 0 else [0, most]
            if name == "floor_divide":
                most = max(abs(a.low), abs(a.high))
                ends = [-most, most]
        else:
            of: Callable[[int, int], int] = getattr(int, f"__{name}__")
            ends = [of(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return self._within(self._make.fn(name, a.e, b.e), ends, text)

    def _floats(self, a: _Number, sign: type[ast.operator], b: _Number) -> _Number:
        """Floats: a quotient or a power has to be finite, or Python raises an error."""
        name = _REAL[sign]
        text = f"({a.text} {_SIGNS_OF_REAL[name]} {b.text})"
        e = self._make.fn(name, a.e, b.e)
        if name in ("div", "pow"):
            self._require(self._make.fn("isfinite", e), f"{text} is finite")
        return _Number(e, 0, 0, text)

    # --- tables

    def _inside(self, at: _Number, n: int) -> Expr:
        """An index that is within a table, whatever it is."""
        low, high = self._make.lit(0, INT), self._make.lit(n - 1, INT)
        return self._make.fn("minimum", self._make.fn("maximum", at.e, low), high)

    def _entry(self, table: Sequence[int], at: _Number) -> _Number:
        low, high = min(table), max(table)
        if low < -WIDE or high >= WIDE:
            raise self._refused(str(max(abs(low), high)))
        b = Buffer("table", INT, (len(table),), "constant", np.array(table, INT))
        e = self._make.load(b, Affine.of(self._inside(at, len(table))))
        return _Number(e, low, high, f"the entry {at.text} of {len(table)} ints")

    def _one_of(self, entries: Sequence[_Number], at: _Number) -> _Number:
        e = entries[-1].e
        for i in range(len(entries) - 2, -1, -1):
            here = self._make.fn("equal", at.e, self._make.lit(i, INT))
            e = self._make.fn("where", here, entries[i].e, e)
        low, high = min(x.low for x in entries), max(x.high for x in entries)
        if low < -WITHIN or high > WITHIN:  # an argument: brought into 32 bits where it is used
            local = Local(f"one{len(self._ints)}", INT)
            self._body.append(Let(local, e))
            chosen = _Number(self._make.local(local), low, high, f"the entry {at.text}")
            self._ints.append(chosen)
            return chosen
        return _Number(e, low, high, f"the entry {at.text}")


_SIGNS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_SIGNS_OF_REAL = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}


def _opposite(sign: ast.cmpop) -> ast.cmpop:
    """Of a comparison of ints, or of finite floats, the one that holds where this does not."""
    opposite: dict[type[ast.cmpop], type[ast.cmpop]] = {
        ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
    }  # fmt: skip
    return opposite[type(sign)]()
