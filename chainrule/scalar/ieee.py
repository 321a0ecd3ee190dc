"""Python numbers that compute as IEEE 754 says, where Python raises: 1 / 0, log 0, overflow.

`Ieee` is slower than a float by a hundred times, and needed where a float has raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

from chainrule.engine.op import Op, kinds
from chainrule.ops.rows import Elementwise

NUMERIC = (ArithmeticError, ValueError)
"""What Python raises where IEEE 754 has an infinity or NaN for an answer."""


@final
class Ieee(float):
    """A float whose arithmetic does not raise."""

    # fmt: off
    def __add__(self, b: Any) -> Any: return Ieee(float(self) + float(b))
    def __radd__(self, a: Any) -> Any: return Ieee(float(a) + float(self))
    def __sub__(self, b: Any) -> Any: return Ieee(float(self) - float(b))
    def __rsub__(self, a: Any) -> Any: return Ieee(float(a) - float(self))
    def __mul__(self, b: Any) -> Any: return Ieee(float(self) * float(b))
    def __rmul__(self, a: Any) -> Any: return Ieee(float(a) * float(self))
    def __truediv__(self, b: Any) -> Any: return Ieee(_quotient(float(self), float(b)))
    def __rtruediv__(self, a: Any) -> Any: return Ieee(_quotient(float(a), float(self)))
    def __floordiv__(self, b: Any) -> Any: return Ieee(_floor_divide(float(self), float(b)))
    def __rfloordiv__(self, a: Any) -> Any: return Ieee(_floor_divide(float(a), float(self)))
    def __mod__(self, b: Any) -> Any: return Ieee(float(self) % float(b) if b else math.nan)
    def __rmod__(self, a: Any) -> Any: return Ieee(float(a) % float(self) if self else math.nan)
    def __pow__(self, b: Any, mod: None = None) -> Any: return Ieee(_power(float(self), float(b)))
    def __rpow__(self, a: Any, mod: None = None) -> Any: return Ieee(_power(float(a), float(self)))
    def __neg__(self) -> Any: return Ieee(-float(self))
    def __abs__(self) -> Any: return Ieee(abs(float(self)))
    # fmt: on


def ieee(x: float) -> Ieee:
    """The number; an int that is larger than every float is infinite."""
    try:
        return Ieee(x)
    except OverflowError:
        return Ieee(math.inf if x > 0 else -math.inf)


def _quotient(a: float, b: float) -> float:
    if b:
        return a / b
    return math.copysign(math.inf, a) * math.copysign(1.0, b) if a and a == a else math.nan


def _floor_divide(a: float, b: float) -> float:
    return a // b if b else _quotient(a, b)


def _power(a: float, b: float) -> float:
    if a < 0 and math.isfinite(b) and not b.is_integer() and math.isfinite(a):
        return math.nan  # Python's is complex
    try:
        return a**b
    except (OverflowError, ZeroDivisionError):
        return math.copysign(math.inf, a) if b % 2 == 1 else math.inf


_POLES: dict[str, dict[float, float]] = {
    "log": {0.0: -math.inf},
    "log2": {0.0: -math.inf},
    "log10": {0.0: -math.inf},
    "log1p": {-1.0: -math.inf},
    "atanh": {1.0: math.inf, -1.0: -math.inf},
}
"""By row: where Python's `math` raises ValueError for an infinity. Elsewhere that means NaN."""
_STEPS = {"floor", "ceil", "trunc", "round"}
"""Rows whose value at an infinity or NaN is that number: Python has no such int."""
_ODD = {"sinh"}
"""Rows that overflow with the sign of x."""


_VALUES: dict[str, Callable[..., Any]] = {"pow": pow}
"""Rows whose value Python's operator knows better than `math` does."""


def limit(row: Elementwise, *xs: Ieee) -> Ieee:
    """The value of `row`, of numbers for which Python may raise."""
    try:
        return Ieee(_VALUES.get(row.label, row.scalar)(*xs))
    except OverflowError:
        if row.label in _STEPS:
            return xs[0]
        return Ieee(math.copysign(math.inf, xs[0]) if row.label in _ODD else math.inf)
    except NUMERIC:
        if row.label == "lgamma":  # it raises at its poles only
            return Ieee(math.inf)
        return Ieee(_POLES.get(row.label, {}).get(xs[0], math.nan))


def _apply(op: Op, *xs: Any) -> Any:
    """The door for such numbers."""
    if not isinstance(op, Elementwise):
        raise TypeError(f"{op} does not compute with numbers")
    return limit(op, *[ieee(x) for x in xs])


kinds[Ieee] = _apply
