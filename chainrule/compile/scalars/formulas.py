"""What the rows of the op table compute from single numbers, said with symbols.

A symbol (`Number`) writes down what is done to it: as machine code (`machine.py`), or as an
expression of the loop language (`reroll.written`). Functions are the C library's, as Python's
`math` has them, so that numbers are the same bits.
"""

# The table's lambdas have no annotations: that is its form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from chainrule.engine.arrays import kinds
from chainrule.engine.op import Op
from chainrule.ops.families import Elementwise, rows

LIBM = {
    name: name
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign",
        "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "hypot", "log", "log10",
        "log1p", "log2", "pow", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    )
} | {"abs": "fabs"}  # fmt: skip
"""What the C library calls the ops that it has."""


class Number(ABC):
    """A number that writes down what is done to it; other operands are Numbers or plain ones."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __init_subclass__(cls) -> None:
        kinds[cls] = _apply

    @abstractmethod
    def plain(self, x: float) -> Number:
        """The plain number `x`, written where this one is."""

    @abstractmethod
    def arithmetic(self, name: str, a: Any, b: Any) -> Number:
        """a `name` b: add, sub, mul or div."""

    @abstractmethod
    def negative(self) -> Number:
        """This, with the other sign."""

    @abstractmethod
    def is_(self, sign: str, x: Any) -> Any:
        """The bit that says whether a comparison holds; none does with NaN but `!=`."""

    @abstractmethod
    def either(self, bit: Any, other: Any) -> Any:
        """The bit that says whether one of two is set."""

    @abstractmethod
    def select(self, bit: Any, a: Any, b: Any) -> Number:
        """a where the bit is set, else b."""

    @abstractmethod
    def call(self, name: str, *xs: Any) -> Number:
        """A function of the C library."""

    def _one_if(self, sign: str, x: Any) -> Number:
        return self.select(self.is_(sign, x), 1.0, 0.0)

    # fmt: off
    def __add__(self, x: Any) -> Number: return self.arithmetic("add", self, x)
    def __radd__(self, x: Any) -> Number: return self.arithmetic("add", x, self)
    def __sub__(self, x: Any) -> Number: return self.arithmetic("sub", self, x)
    def __rsub__(self, x: Any) -> Number: return self.arithmetic("sub", x, self)
    def __mul__(self, x: Any) -> Number: return self.arithmetic("mul", self, x)
    def __rmul__(self, x: Any) -> Number: return self.arithmetic("mul", x, self)
    def __truediv__(self, x: Any) -> Number: return self.arithmetic("div", self, x)
    def __rtruediv__(self, x: Any) -> Number: return self.arithmetic("div", x, self)
    def __pow__(self, x: Any) -> Number: return self.call("pow", self, x)
    def __neg__(self) -> Number: return self.negative()
    def __lt__(self, x: Any) -> Number: return self._one_if("<", x)
    def __le__(self, x: Any) -> Number: return self._one_if("<=", x)
    def __gt__(self, x: Any) -> Number: return self._one_if(">", x)
    def __ge__(self, x: Any) -> Number: return self._one_if(">=", x)
    def __eq__(self, x: Any) -> Any: return self._one_if("==", x)
    # fmt: on

    def __bool__(self) -> bool:
        raise TypeError("a formula with a branch cannot be written down")


# --- The values of rows --------------------------------------------------------------------------


def inverse(b: Number) -> Number:
    """b**-1, by which `Value` divides."""
    return b.call("pow", b, -1.0)


def _divide(a: Number, b: Number) -> Number:
    """a * b**-1, as `Value` has it; where the power is not finite, IEEE's quotient."""
    by = inverse(b)
    return a.select(b.call("fabs", by).is_("==", float("inf")), a / b, a * by)


def _sigmoid(x: Number) -> Number:
    e = x.call("exp", x.select(x.is_(">=", 0.0), -x, x))
    return x.select(x.is_(">=", 0.0), 1.0 / (1.0 + e), e / (1.0 + e))


def _relu(x: Number) -> Number:
    return x.select(x.either(x.is_(">", 0.0), x.is_("!=", x)), x, 0.0)


def _sign(x: Number) -> Number:
    return x.select(x.is_("!=", x), x, (x > 0.0) - (x < 0.0))


def _larger(sign: str) -> Callable[[Number, Number], Number]:
    return lambda a, b: a.select(a.either(a.is_(sign, b), a.is_("!=", a)), a, b)


def _density(e: Number, scale: float) -> Number:
    """scale e / (1 + e)^2."""
    return scale * e / ((1.0 + e) * (1.0 + e))


def _decay(x: Number, scale: float) -> Number:
    """e^(-scale |x|)."""
    return x.call("exp", -scale * x.call("fabs", x))


def _size(a: Number, b: Any) -> Number:
    """The length of (a, b), 1 where it is 0."""
    size = a.call("hypot", a, b)
    return size + (size == 0.0)


def _exp_product(a: Number, b: Any) -> Number:
    """e^(a b), what the product loses by rounding put back."""
    hi = a * b
    lo = a.call("fma", a, b, -hi)
    e = a.call("exp", hi)
    return hi.select(hi.call("fabs", hi).is_("<", 1e4), e + e * lo, e)


_BRANCHING: dict[str, Callable[..., Number]] = {
    "logistic_density": lambda x: _density(_decay(x, 1.0), 1.0),
    "sech_square": lambda x: _density(_decay(x, 2.0), 4.0),
    "cos_atan": lambda x: 1.0 / x.call("hypot", x, 1.0),
    "cos_angle": lambda a, b: a / _size(a, b),
    "per_square": lambda a, b: a / _size(a, b) / _size(a, b),
    "exp_product": _exp_product,
    "div": _divide,
    "sigmoid": _sigmoid,
    "relu": _relu,
    "sign": _sign,
    "maximum": _larger(">="),
    "minimum": _larger("<="),
    "at_least": _larger(">="),
    "at_most": _larger("<="),
}
"""Values whose Python has a branch, or is another than the row's."""


def value(row: Elementwise, xs: Sequence[Number]) -> Any:
    """The value of a row of these."""
    if (branching := _BRANCHING.get(row.label)) is not None:
        return branching(*xs)
    if (name := LIBM.get(row.label)) is not None:
        return xs[0].call(name, *xs)
    return row.scalar(*xs)


NUMBERS: dict[str, tuple[int, Callable[..., Any]]] = {
    "quotient": (2, lambda a, b: a / b),
    "least": (2, lambda a, b: b.select(b.is_("<", a), b, a)),
    "most": (2, lambda a, b: b.select(b.is_(">", a), b, a)),
}
"""What Python's floats compute otherwise than Values do; it has no derivative."""


def arity(label: str) -> int:
    """How many operands it has."""
    return NUMBERS[label][0] if label in NUMBERS else len(rows[label].partials)


def computed(label: str, xs: Sequence[Number]) -> Any:
    """What a row, or a function of floats, computes of these."""
    return NUMBERS[label][1](*xs) if label in NUMBERS else value(rows[label], xs)


def partial(row: Elementwise, i: int, y: Number, xs: Sequence[Number]) -> Any:
    """The derivative of a row's value `y` with respect to operand i."""
    d: Any = row.partials[i].value(y, xs)
    return d if isinstance(d, Number) else y.plain(d)


def _apply(op: Op, *xs: Any) -> Number:
    first = next(x for x in xs if isinstance(x, Number))
    if not isinstance(op, Elementwise):
        raise TypeError(f"{op} in a formula of single numbers")
    return value(op, [x if isinstance(x, Number) else first.plain(x) for x in xs])
