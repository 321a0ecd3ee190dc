"""Expressions in C: infix, with no more parentheses than C needs or a compiler asks for.

Notation: a level says how tightly an operator binds; higher is tighter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

from chainrule.compile.c import functions as fn
from chainrule.compile.graph.sizes import Extent, Size
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, Var
from chainrule.engine.dtypes import NARROW
from chainrule.errors import DtypeError

Named = Callable[[Any], str]
Text = tuple[str, int]
"""C, and its level."""
_COMPARISONS = {8, 9}
_BITS = {5, 6, 7}


@final
class Printer:
    """Says expressions in C. `known` are those that a variable holds; `used` the helpers met."""

    def __init__(self, used: dict[tuple[str, Any], None]) -> None:
        self.used = used
        self.names: dict[Var | Local, str] = {}
        self.buffers: dict[Buffer, tuple[str, int]] = {}
        """What a kernel calls a buffer, and the offset at which what it is given starts."""
        self.shown: dict[Local, Expr] = {}
        """Variables that are not there: what they would be set to stands in their place."""
        self.known: Callable[[Expr], str | None] = lambda _: None

    def text(self, e: Expr) -> str:
        """`e` where nothing binds tighter."""
        return self._text(e)[0]

    def tight(self, e: Expr) -> str:
        """`e` in the place of a name."""
        return _within(self._text(e), fn.PRIMARY)

    def fresh(self, e: Expr) -> str:
        """`e` itself, also where a variable holds it."""
        return self._make(e)[0]

    def _text(self, e: Expr) -> Text:
        name = self.known(e)
        return (name, fn.PRIMARY) if name is not None else self._make(e)

    def _make(self, e: Expr) -> Text:
        match e.kind:
            case "lit":
                text = fn.literal(e.of, e.dtype)
                return text, fn.UNARY if text.startswith("-") else fn.PRIMARY
            case "local":
                value = self.shown.get(e.of)
                return self._text(value) if value is not None else (self.names[e.of], fn.PRIMARY)
            case "load":
                return self._load(e)
            case "index":
                return self.affine(e.of)
            case _:
                return self._call(e)

    # --- memory

    def _load(self, e: Expr) -> Text:
        buffer, at, when = e.of
        place = self.element(buffer, at)
        if when is None:
            return place, fn.PRIMARY
        test = _within(self._text(when), fn.CHOICE + 1)
        return f"{test} ? {place} : 0", fn.CHOICE

    def element(self, buffer: Buffer, at: Affine) -> str:
        """The element of a buffer."""
        name, start = self.buffers[buffer]
        place = self.offset(at, start)
        return f"*{name}" if buffer.size == 1 and place == "0" else f"{name}[{place}]"

    def offset(self, at: Affine, start: int) -> str:
        """An offset, counted from `start` on."""
        return self.affine(at - start)[0]

    def affine(self, at: Affine) -> Text:
        """An offset."""
        words: list[str] = []
        for v, c in at.terms:
            x = self.names[v] if isinstance(v, Var) else self.tight(v)
            words.append(x if c == 1 else f"-{x}" if c == -1 else f"{_factor(c)}*{x}")
        if at.const != 0 or not words:
            words.append(extent(at.const))
        text = " + ".join(words).replace(" + -", " - ")
        return text, fn.PRIMARY if len(words) == 1 and text.isidentifier() else 11

    # --- functions

    def _call(self, e: Expr) -> Text:
        """A call: a special form, an infix operator, a function of C's library, or a helper of
        ours."""
        wrapped = wrapped_index(e)
        if wrapped is not None:
            self.used[fn.INDEX, None] = None
            index, size = wrapped
            return f"{fn.INDEX}({self.text(index)}, {self.affine(size)[0]})", fn.PRIMARY
        name, *args = e.of
        special = self._SPECIAL.get(name)
        if special is not None:
            return special(self, e, args)
        dtype = args[0].dtype
        if name in fn.INFIX:
            return self._infix(name, e, args)
        if dtype.kind == "f" and name in fn.LIBRARY:
            return self._function(fn.LIBRARY[name] + fn.suffix(dtype), args)
        if name in fn.TESTS:
            return self._test(name, args[0])
        if name in ("floor", "ceil", "trunc", "round") or (name == "abs" and dtype.kind in "bu"):
            return self._text(args[0])  # of integers
        if name in ("at_least", "at_most"):
            name = "maximum" if name == "at_least" else "minimum"
        if not fn.has_helper(name, dtype):
            raise LookupError(name)
        self.used.update(dict.fromkeys([(n, dtype) for n in fn.needs(name)]))
        return self._function(fn.helper_name(name, dtype), args)

    def _function(self, name: str, args: list[Expr]) -> Text:
        return f"{name}({', '.join([self.text(a) for a in args])})", fn.PRIMARY

    def _test(self, name: str, x: Expr) -> Text:
        if x.dtype.kind == "f":
            return self._function(name, [x])
        return ("true" if name == "isfinite" else "false"), fn.PRIMARY

    def _infix(self, name: str, e: Expr, args: list[Expr]) -> Text:
        if e.dtype.kind == "b" and name in ("add", "mul"):
            name = "logical_or" if name == "add" else "logical_and"
        sign, level = fn.INFIX[name]
        left, right = [self._operand(a, level, i) for i, a in enumerate(args)]
        text = f"{left} {sign} {right}"
        if e.dtype.kind in "iu" and e.dtype.itemsize < 4:
            return f"({fn.type_of(e.dtype)})({text})", fn.UNARY
        return text, level

    def _operand(self, x: Expr, level: int, place: int) -> str:
        """An operand; those that a compiler would warn of have parentheses, too."""
        text = self._text(x)
        inner = text[1]
        mixed = inner != level and (
            (level in _COMPARISONS and inner in _COMPARISONS)
            or (level in _BITS and inner < fn.UNARY)
            or (level == 3 and inner == 4)
        )
        same = inner == level and (place == 1 or level in _COMPARISONS)
        associative = level in (3, 4) and inner == level
        return _within(text, level + 1 if (same and not associative) or mixed else level, mixed)

    # --- rows of their own

    def _where(self, e: Expr, args: list[Expr]) -> Text:
        test, yes, no = args
        return (
            f"{_within(self._text(test), fn.CHOICE + 1)} ? "
            f"{_within(self._text(yes), fn.CHOICE + 1)} : {self.text(no)}"
        ), fn.CHOICE

    def _cast(self, e: Expr, args: list[Expr]) -> Text:
        (x,) = args
        if e.dtype.char in NARROW:
            raise DtypeError(
                f"to_c: a number is rounded to {e.dtype}, which C99 has no numbers for: "
                "use float32 or float64"
            )
        if e.dtype.kind == "b":
            return f"{_within(self._text(x), 9)} != 0", 8
        if x.kind == "index" and e.dtype.kind in "iu":
            return self._text(x)
        return f"({fn.type_of(e.dtype)}){_within(self._text(x), fn.UNARY)}", fn.UNARY

    def _neg(self, e: Expr, args: list[Expr]) -> Text:
        inner = _within(self._text(args[0]), fn.UNARY)
        return f"-({inner})" if inner.startswith("-") else f"-{inner}", fn.UNARY

    def _square(self, e: Expr, args: list[Expr]) -> Text:
        return self._infix("mul", e, [args[0], args[0]])

    def _reciprocal(self, e: Expr, args: list[Expr]) -> Text:
        one = fn.literal(1.0 if e.dtype.kind == "f" else 1, e.dtype)
        return f"{one} / {_within(self._text(args[0]), 13)}", 12

    def _not(self, e: Expr, args: list[Expr]) -> Text:
        return f"!{_within(self._text(args[0]), fn.UNARY)}", fn.UNARY

    def _xor(self, e: Expr, args: list[Expr]) -> Text:
        sides = [f"({_within(self._text(a), 9)} != 0)" for a in args]
        return " != ".join(sides), 8

    def _invert(self, e: Expr, args: list[Expr]) -> Text:
        if e.dtype.kind == "b":
            return self._not(e, args)
        text = f"~{_within(self._text(args[0]), fn.UNARY)}"
        narrow = e.dtype.itemsize < 4
        return f"({fn.type_of(e.dtype)}){text}" if narrow else text, fn.UNARY

    def _same(self, e: Expr, args: list[Expr]) -> Text:
        return self._text(args[0])

    def _signbit(self, e: Expr, args: list[Expr]) -> Text:
        (x,) = args
        if x.dtype.kind == "f":
            return f"signbit({self.text(x)}) != 0", 8
        return ("false", fn.PRIMARY) if x.dtype.kind in "bu" else (f"{self.tight(x)} < 0", 9)

    _SPECIAL: ClassVar[dict[str, Callable[[Printer, Expr, list[Expr]], Text]]] = {
        "where": _where, "cast": _cast, "neg": _neg,
        "square": _square, "reciprocal": _reciprocal, "logical_not": _not,
        "logical_xor": _xor, "bitwise_invert": _invert, "positive": _same,
        "conj": _same, "signbit": _signbit,
    }  # fmt: skip


def _within(text: Text, level: int, always: bool = False) -> str:
    return f"({text[0]})" if text[1] < level or always else text[0]


def extent(n: Extent) -> str:
    """A size in C: a number, or a polynomial of symbols."""
    if not isinstance(n, Size):
        return str(n)
    return str(n).replace("+ -", "- ")


def _factor(c: Extent) -> str:
    return extent(c) if isinstance(c, int) or len(c.terms) == 1 else f"({extent(c)})"


def wrapped_index(e: Expr) -> tuple[Expr, Affine] | None:
    """An index i from data and the size n of its axis, if `e` is i brought into 0 to n - 1. A
    negative i counts from the end."""
    if e.kind != "fn" or e.of[0] != "minimum" or e.of[1].kind != "fn":
        return None
    inner, last = e.of[1], e.of[2]
    if inner.of[0] != "maximum" or not _is_zero(inner.of[2]) or inner.of[1].kind != "fn":
        return None
    choice = inner.of[1]
    if choice.of[0] != "where" or last.kind != "index":
        return None
    test, raised, i = choice.of[1:]
    size = last.of + 1
    negative = test.kind == "fn" and test.of[0] == "less" and test.of[1] is i
    lifted = raised.kind == "fn" and raised.of[0] == "add" and raised.of[1] is i
    same = lifted and raised.of[2].kind == "index" and raised.of[2].of == size
    return (i, size) if negative and _is_zero(test.of[2]) and same else None


def _is_zero(e: Expr) -> bool:
    return e.kind == "lit" and e.of == 0
